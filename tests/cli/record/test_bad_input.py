"""What no importer may be thrown by: pipes, folders, bytes that are no text, and a lot of junk."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from ett_service.cli.record.import_ import FORMATS
from ett_service.importers.importer import Report
from tests.builders.imports import Wire, ledgers_of
from tests.builders.samples import FILES, keywords, sample

MIB = 1 << 20
BINARY = ("mlflow", "parquet", "wandb")
"""Formats whose files are no lines of text."""

every_format = pytest.mark.parametrize("name", FORMATS)
of_records = pytest.mark.parametrize(
    "name", [name for name in FORMATS if name not in (*BINARY, "megatron", "torch-trace")]
)
"""Formats of which a line is a record with an instant of its own."""
of_local_times = pytest.mark.parametrize(
    "name",
    [name for name, form in FORMATS.items() if "zone" in form.options and name != "torchelastic"],
)
"""The sample of torchelastic is of agents' events, which have seconds since 1970."""


def imported(name: str, *paths: Path, **options: object) -> tuple[Wire, Report]:
    runs, report = FORMATS[name].read(paths, **{**keywords(name), **options})
    return [event for run in runs for event in run.events], report


@every_format
def test_what_is_no_file_is_named_and_the_rest_is_read(tmp_path: Path, name: str) -> None:
    good = sample(name, tmp_path)
    pipe, empty, missing = tmp_path / "pipe", tmp_path / "empty", tmp_path / "missing"
    os.mkfifo(pipe)
    empty.mkdir()
    bad = [pipe, empty, missing, Path("/dev/zero")]
    events, report = imported(name, *bad, good)
    assert events == imported(name, good)[0]
    assert {each.partition(": ")[0] for each in report.unread} == set(map(str, bad))


@contextmanager
def nobody() -> Iterator[None]:
    """Let root, whom no permission stops, be somebody else."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if was == 0:
            os.seteuid(0)


@every_format
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, name: str) -> None:
    events, _ = imported(name, good := sample(name, tmp_path))  # and what takes an import is there
    closed = tmp_path / "closed"
    closed.write_bytes(good.read_bytes())
    closed.chmod(0)
    with nobody():
        nothing, report = imported(name, closed)
    assert (len(events) > 0, nothing) == (True, [])
    assert len(report.unread) == 1
    assert report.unread[0].startswith(f"{closed}: ")
    assert "ermission" in report.unread[0]


@every_format
def test_bytes_that_are_no_text_cost_no_more_than_their_line(tmp_path: Path, name: str) -> None:
    events, before = imported(name, good := sample(name, tmp_path))
    if name in BINARY:
        good.write_bytes(good.read_bytes() + JUNK["bytes"])
    else:
        lines = good.read_bytes().splitlines(keepends=True)
        middle = len(lines) // 2
        good.write_bytes(b"".join([*lines[:middle], b"\xff\xfe\xe9\x80\n", *lines[middle:]]))
    after, report = imported(name, good)
    if name in BINARY:
        assert after in ([], events)
    else:
        assert after == events
        assert report.skipped <= before.skipped + 2


def same_ledgers(events: Wire, others: Wire) -> bool:
    """Whether both make the same jobs of the same segments."""
    folded, expected = ledgers_of(events), ledgers_of(others)
    return folded.keys() == expected.keys() and all(
        folded[job].segments == expected[job].segments for job in expected
    )


@every_format
def test_a_file_that_was_cut_is_healed_by_the_whole_one(tmp_path: Path, name: str) -> None:
    good = sample(name, tmp_path)
    content = good.read_bytes()
    whole, _ = imported(name, good)
    for share in (1, 13, 37, 61, 83, 99):
        good.write_bytes(content[: len(content) * share // 100])
        part, report = imported(name, good)
        assert part or report.unread or report.unfinished, share
        assert same_ledgers([*part, *whole], whole), share


@every_format
def test_what_is_given_twice_counts_once(tmp_path: Path, name: str) -> None:
    good = sample(name, tmp_path)
    once, _ = imported(name, good, job="llm")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    copies = [elsewhere / good.name, good.with_name(f"run-copy{good.suffix}")]
    for copy in copies:
        copy.write_bytes(good.read_bytes())
    assert same_ledgers(imported(name, good, good, *copies, job="llm")[0], once)
    if name not in (*BINARY, "torch-trace"):  # a record of which goes over several lines
        lines = good.read_bytes().splitlines(keepends=True)
        good.write_bytes(b"".join(each for line in lines for each in (line, line)))
        assert same_ledgers(imported(name, good, job="llm")[0], once)


@of_records
def test_records_out_of_order_change_nothing(tmp_path: Path, name: str) -> None:
    good = sample(name, tmp_path)
    events, _ = imported(name, good)
    lines = good.read_bytes().splitlines(keepends=True)
    for place in {1, 2, 3, len(lines) // 2, len(lines) - 2} & {*range(1, len(lines) - 1)}:
        swapped = [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]
        good.write_bytes(b"".join(swapped))
        assert same_ledgers(imported(name, good)[0], events), place


@every_format
def test_junk_makes_nothing_and_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "junk"
    for kind, block in JUNK.items():
        path.write_bytes(block)
        events, report = imported(name, path)
        assert events == [], kind
        assert report.unread, kind
        assert all(each.startswith(f"{path}: ") for each in report.unread), kind


@every_format
def test_a_file_without_lines_is_not_held(tmp_path: Path, name: str) -> None:
    with (path := tmp_path / "zeros").open("wb") as file:
        file.truncate(48 * MIB)
    imported(name, sample(name, tmp_path))  # takes what memory an import takes
    before = peak_bytes()
    assert imported(name, path)[0] == []
    assert peak_bytes() - before < 44 * MIB


def peak_bytes() -> int:
    """Return the most memory since the last call, of the process."""
    status = Path("/proc/self/status").read_text()
    Path("/proc/self/clear_refs").write_text("5")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


class ClocksPutBack(tzinfo):
    """A zone whose clocks show the hour before *until* twice."""

    def __init__(self, until: datetime) -> None:
        self._until = until.replace(tzinfo=None)

    def utcoffset(self, local: datetime | None) -> timedelta | None:
        if local is None:  # it has no offset for all times
            return None
        shown = local.replace(tzinfo=None, fold=0)
        is_first = shown < self._until - timedelta(hours=1) or (
            shown < self._until and not local.fold
        )
        return timedelta(hours=2 if is_first else 1)

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> str:
        return "odd"


@of_local_times
def test_times_that_clocks_show_twice_are_named_and_nothing_is_lost(
    tmp_path: Path, name: str
) -> None:
    path = sample(name, tmp_path)
    plain, _ = imported(name, path, zone=UTC)
    instants = sorted(datetime.fromisoformat(each["at"]) for each in plain)
    back = ClocksPutBack(instants[len(instants) // 2] + timedelta(minutes=30))
    events, report = imported(name, path, zone=back)
    assert len(events) == len(plain)
    assert any("twice" in note for note in report.notes)
    assert {each["at"] for each in events} != {each["at"] for each in plain}


@pytest.mark.long
@pytest.mark.timeout(1800)
@every_format
@pytest.mark.parametrize("kind", ["zeros", "bytes", "words", "fields"])
def test_any_amount_of_junk_takes_less_than_300_mebibytes(
    tmp_path: Path, pytestconfig: pytest.Config, name: str, kind: str
) -> None:
    path, block = tmp_path / "junk", JUNK[kind]
    with path.open("wb") as file:
        for _ in range(pytestconfig.getoption("--mib") * MIB // len(block) + 1):
            file.write(block)
    options = [f"--{option}={FILES[option]}" for option in FORMATS[name].options if option in FILES]
    command = [sys.executable, "-c", IMPORT, "import", name, "--dry-run", *options, str(path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    path.unlink()
    code, peak_kib = map(int, process.stdout.split())
    assert code == 1, process.stderr
    assert peak_kib * 1024 < 300 * MIB


IMPORT = """
import sys
from ett_service.cli.main import main
code = main(sys.argv[1:])
print(code, open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""
"""Prints the exit code, and the most memory in KiB: what ``wait4`` says counts the parent's."""


JUNK: Mapping[str, bytes] = {
    "zeros": bytes(MIB // 4),
    "bytes": random.Random(1).randbytes(MIB // 8),
    "words": b"".join(b"%d words that no program writes\n" % n for n in range(2_000)),
    "objects": b'{"a": 1, "b": [1, {"c": "d"}], "time": 1.0}\n' * 1_000,
    "nesting": b'{"a": [' * 20_000,
    "depth": b"- " * 150_000,
    "braces": b"{\n" * 4_000,
    "fields": b"abc|" * (MIB // 16),
    "quotes": b'"' + b"abc,\n" * 4_000,
    "documents": b"---\na: [\n" * 1_000,
}
