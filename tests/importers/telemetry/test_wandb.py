"""Offline runs of W&B."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.words import Category, Outcome
from ett_service.importers.files import Unreadable
from ett_service.importers.importer import Report
from ett_service.importers.recognition import by_format
from ett_service.importers.telemetry.wandb import Damaged, fields, read, records, short_pair
from tests.builders.imports import Wire, ledgers_of, seconds
from tests.builders.wandb import BLOCK, exit_of, field, framed, history, run, stats

START = 1_785_000_000.0


def imported(*paths: Path) -> tuple[Wire, Report]:
    runs, report = read(paths)
    return [sent for each in runs for sent in each.events], report


def steps(begin: float, first: int, key: str = "global_step") -> list[bytes]:
    """Ten points, 10 s apart, 60 s after the begin."""
    return [history(START + begin + 60 + 10 * n, _step=n, **{key: first + n}) for n in range(1, 11)]


def written(folder: Path, name: str, *records: bytes) -> Path:
    path = folder / f"run-{name}.wandb"
    path.write_bytes(framed(*records))
    return path


def test_runs_of_one_name_are_attempts_of_a_job(tmp_path: Path) -> None:
    crashed = [run("a", "llm", "pre", START), *steps(0, 0), exit_of(137, 180)]
    resumed = [run("a", "llm", "pre", START + 300), *steps(300, 5), exit_of(0, 180)]
    written(tmp_path, "a", *crashed)
    written(tmp_path, "b", *resumed)
    ((name, job),) = ledgers_of(imported(tmp_path)[0]).items()

    assert name == "pre-llm"
    assert [attempt.outcome for attempt in job.attempts] == [Outcome.FAILED, Outcome.COMPLETED]
    assert seconds(job)[Category.RESTART_WAIT] == 120
    assert job.attempts[0].last_step == 10
    assert [*by_format([tmp_path])] == ["wandb"]


def test_the_step_of_the_trainer_goes_before_that_of_the_log(tmp_path: Path) -> None:
    path = written(tmp_path, "a", run("a", "llm", "", START), *steps(0, 100))
    assert [e["step"] for e in imported(path)[0] if e["type"] == "progress"][-1] == 110

    path = written(tmp_path, "a", run("a", "llm", "", START), *steps(0, 100, "loss"))
    assert [e["step"] for e in imported(path)[0] if e["type"] == "progress"][-1] == 10


def test_a_run_that_was_killed_is_heard_until_its_last_sample(tmp_path: Path) -> None:
    path = written(tmp_path, "a", run("a", "llm", "pre", START), *steps(0, 0), stats(START + 175.5))
    ((_, job),) = ledgers_of(imported(path)[0]).items()

    assert (job.attempts[0].outcome, job.e2e_us) == (Outcome.LOST, 175.5e6)


def test_damage_is_named_by_its_record(tmp_path: Path) -> None:
    odd = history(1.0, _step=1)
    path = written(tmp_path, "a", run("a", "llm", "pre", START), odd, *steps(0, 0))
    path.write_bytes(path.read_bytes()[:-3])
    _, report = imported(path)

    assert report.first_skipped == [
        f"{path}:2: record 2: history without a _timestamp in seconds",
        f"{path}:12: record 12: a record that is damaged or cut",
    ]
    (other := tmp_path / "run-b.wandb").write_bytes(framed(odd))
    assert imported(other)[1].unread == [f"{other}: no run with a start in it"]


def records_of(path: Path, content: bytes) -> list[int | None]:
    """The number that each record holds in its field 1; None for a damaged one."""
    path.write_bytes(content)
    return [None if record is None else record[1][0] for _, record in records(path)]  # type: ignore[misc]


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [field(1, number) + field(2, bytes(size)) for number in range(count)]


@pytest.mark.parametrize("size", [0, 5_000, BLOCK - 12, BLOCK, 3 * BLOCK])
def test_records_are_read_across_blocks(tmp_path: Path, size: int) -> None:
    assert records_of(tmp_path / "run-a.wandb", framed(*numbered(9, size))) == [*range(9)]


def test_a_cut_record_is_damaged_and_those_before_it_are_read(tmp_path: Path) -> None:
    content = framed(*numbered(5, BLOCK))
    assert records_of(tmp_path / "run-a.wandb", content[:-10]) == [0, 1, 2, 3, None]


def test_of_a_damaged_block_the_next_is_read(tmp_path: Path) -> None:
    content = bytearray(framed(*numbered(20, 5_000)))
    content[100] ^= 1
    first, *rest = records_of(tmp_path / "run-a.wandb", bytes(content))

    assert first is None
    assert [number for number in rest if number is not None] == [*range(7, 20)]


def test_what_is_no_such_log_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no log of an offline run"):
        records_of(tmp_path / "run-a.wandb", b"hello")


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_damaged(body: bytes) -> None:
    try:
        assert all(number >= 0 for number in fields(body))
    except Damaged:
        assert body


@pytest.mark.parametrize("name", ["_step", "loss", "a" * 200])
@pytest.mark.parametrize("value", ["7", "", "x" * 127, "x" * 128, "x" * 300])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_item_is_read_at_a_glance_as_its_fields_say(name: str, value: str, number: int) -> None:
    item = field(number, name) + field(16, value)
    pair = short_pair(item)
    is_short = number < 3 and len(name) < 128 and len(value) < 128
    assert pair == ((name.encode(), value.encode()) if is_short else None)
    for other in (item[:-1], item + field(2, "more"), item[:1], b"", field(1, name)):
        assert short_pair(other) is None
