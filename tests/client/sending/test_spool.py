"""What the spool keeps, and where it puts what the disk does not take."""

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ett_service.client.identity import Identity
from ett_service.client.lines import Lines
from ett_service.client.sending import spool as spool_module
from ett_service.client.sending.backlog import Backlog, Position, adopted, spools
from ett_service.client.sending.seals import bare
from ett_service.client.sending.spool import OWNER, Spool, default_root, job_directory

LINE = Lines(Identity("j", "launch"), "p").line({"type": "heartbeat"})
EVENT = bare(LINE)


def lines_of(directory: Path) -> list[bytes]:
    piece = Backlog(directory, alive=False).next_piece(10_000, 1 << 20)
    return list(piece.lines) if piece else []


def test_a_line_is_on_disk_when_write_returns_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "job" / "p", {})
    spool.write(LINE)

    path = tmp_path / "job" / "p" / "000001.jsonl"
    assert path.read_bytes() == LINE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    spool.close()


def test_a_long_segment_is_followed_by_another(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "p", {}, segment=3 * len(LINE))
    for _ in range(9):
        spool.write(LINE)
        spool.tend(0)
    spool.close()

    assert len(list((tmp_path / "p").glob("0*.jsonl"))) == 4
    backlog = Backlog(tmp_path / "p", alive=False)
    seen = 0
    while piece := backlog.next_piece(2, 1 << 20):
        seen += len(piece.lines)
        backlog.advance(piece.end)
    assert seen == 9


def test_a_segment_is_on_the_disk_before_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        spool_module, "_sync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
    )
    spool = Spool(tmp_path / "p", {}, segment=1)
    spool.write(LINE)
    spool.tend(0)
    assert synced == ["000001.jsonl"]
    spool.write(LINE)
    spool.sync()
    spool.sync()
    spool.close()
    assert synced == ["000001.jsonl", "000002.jsonl"]


def test_a_full_disk_leaves_the_last_thousand_in_memory_and_counts_the_rest(
    tmp_path: Path,
) -> None:
    spool = Spool(tmp_path / "p", {})
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, spool.fd)
    os.close(full)
    (tmp_path / "p").chmod(0o500)
    for path in (tmp_path / "p").glob("0*.jsonl"):
        path.rename(path.with_name("000002.jsonl"))  # so that no new segment can be made
    for n in range(1003):
        spool.write(b"%d\n" % n)
    spool.close()

    assert spool.dropped == {"memory_full": 3}
    assert spool.ring[0] == b"3\n"
    assert spool.ring[-1] == b"1002\n"


def test_nobody_writes_to_a_file_that_is_being_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path / "p", {})
    written_to: list[int] = []
    close = os.close

    def closing(fd: int) -> None:
        written_to.append(spool.fd)
        close(fd)

    monkeypatch.setattr(os, "close", closing)
    spool.close()
    assert written_to == [-1, -1]


def test_a_closed_spool_stays_closed(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "p", {})
    spool.close()
    spool.tend(0)
    spool.write(LINE)
    assert [path.name for path in (tmp_path / "p").glob("0*.jsonl")] == ["000001.jsonl"]
    assert list(spool.ring) == [LINE]


def test_a_directory_that_cannot_be_made_leaves_the_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spool = Spool(tmp_path / "file" / "p", {})
    spool.write(LINE)
    spool.close()
    assert list(spool.ring) == [LINE]


def test_past_the_limit_progress_is_dropped_first_and_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "p", {}, limit=100)
    spool.tend(unsent=101)
    spool.write_droppable(b"progress\n")
    spool.write(LINE)

    assert spool.dropped == {"spool_full": 1}
    assert lines_of(tmp_path / "p") == [EVENT]
    spool.tend(unsent=0)
    spool.write_droppable(LINE)
    assert len(lines_of(tmp_path / "p")) == 2
    spool.close()


def test_far_past_the_limit_edges_go_to_memory(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "p", {}, limit=100)
    spool.tend(unsent=100 << 20)
    spool.write(LINE)
    assert list(spool.ring) == [LINE]
    spool.tend(unsent=0)
    spool.write(LINE)
    assert lines_of(tmp_path / "p") == [EVENT]
    spool.close()


def test_a_torn_last_line_loses_only_itself(tmp_path: Path) -> None:
    Spool(tmp_path / "p", {}).close()
    for cut in range(1, len(LINE)):
        (tmp_path / "p" / "000001.jsonl").write_bytes(LINE + LINE[:cut])
        piece = Backlog(tmp_path / "p", alive=False).next_piece(10, 1 << 20)
        assert piece is not None
        whole = 2 if cut == len(LINE) - 1 else 1  # the last cut takes the line's end only
        assert (piece.lines, piece.unreadable) == ((EVENT,) * whole, 2 - whole), cut


@pytest.mark.parametrize(
    "garbled",
    [
        b'{"type":"heart\x00\xff\n',
        b'{"a":[]\n',
        EVENT + b"\n",  # without its seal
        LINE.replace(b"heartbeat", b"heartbeet"),
        b"\n",
        bytes(2 << 20) + b"\n",  # as some file systems leave behind after a power cut
    ],
)
def test_a_garbled_line_in_the_middle_loses_only_itself(tmp_path: Path, garbled: bytes) -> None:
    spool = Spool(tmp_path / "p", {})
    for line in (LINE, garbled, LINE):
        spool.write(line)
    spool.close()

    backlog, unreadable = Backlog(tmp_path / "p", alive=False), 0
    events: list[bytes] = []
    while (piece := backlog.next_piece(10, 1 << 20)) is not None:
        events += piece.lines
        unreadable += piece.unreadable
        backlog.advance(piece.end)
    assert (events, unreadable) == ([EVENT] * 2, 1)


def test_the_half_line_of_a_living_process_is_waited_for(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "p", {})
    spool.write(LINE + LINE[:5])
    backlog = Backlog(tmp_path / "p", alive=True)
    piece = backlog.next_piece(10, 1 << 20)
    assert piece is not None
    backlog.advance(piece.end)
    assert backlog.next_piece(10, 1 << 20) is None
    spool.write(LINE[5:])
    rest = backlog.next_piece(10, 1 << 20)
    assert rest is not None
    assert list(rest.lines) == [EVENT]
    spool.close()


def test_what_is_settled_is_remembered_beside_the_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "p", {})
    spool.write(LINE * 3)
    first = Backlog(tmp_path / "p", alive=True)
    piece = first.next_piece(2, 1 << 20)
    assert piece is not None
    first.advance(piece.end)

    again = Backlog(tmp_path / "p", alive=True).next_piece(10, 1 << 20)
    assert again is not None
    assert len(again.lines) == 1
    spool.close()


def test_only_a_spool_whose_process_is_gone_is_adopted_and_by_one_only(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "job" / "p", {"job": "j"})
    directory = tmp_path / "job" / "p"
    with adopted(directory) as backlog:
        assert backlog is None
    spool.close()
    with adopted(directory) as backlog, adopted(directory) as other:
        assert backlog is not None
        assert backlog.owner["job"] == "j"
        assert other is None
        backlog.discard()
    with adopted(directory) as backlog:
        assert backlog is None
    assert spools(tmp_path) == []


def test_what_was_refused_outlives_its_spool(tmp_path: Path) -> None:
    Spool(tmp_path / "p", {}).close()
    with adopted(tmp_path / "p") as backlog:
        assert backlog is not None
        backlog.refuse([(b'{"id":"x"}', "unknown_phase /events/0/phase")])
        backlog.discard()

    (file,) = (tmp_path / "p").iterdir()
    refused = json.loads(file.read_text())
    assert refused == {"reason": "unknown_phase /events/0/phase", "event": {"id": "x"}}


def test_spools_of_different_jobs_never_share_a_directory(tmp_path: Path) -> None:
    names = ["a b", "a-b", "a*b", "../a", "." * 3, "ä" * 200]
    directories = [job_directory(tmp_path, name) for name in names]
    assert len(set(directories)) == len(names)
    assert all(directory.parent == tmp_path for directory in directories)
    assert not any(directory.name.startswith(".") for directory in directories)


def test_spools_lie_where_the_user_chooses_or_where_state_belongs() -> None:
    assert default_root({"ETT_SPOOL": "/s", "HOME": "/h"}) == Path("/s")
    assert default_root({"XDG_STATE_HOME": "/x"}) == Path("/x/ett/spool")
    assert default_root({"HOME": "/h"}) == Path("/h/.local/state/ett/spool")


def test_spools_are_found_while_others_come_and_go(tmp_path: Path) -> None:
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            for number in range(50):
                (tmp_path / f"{number}").mkdir()
            for number in range(50):
                (tmp_path / f"{number}").rmdir()

    spool = tmp_path / "kept"
    spool.mkdir()
    (spool / OWNER).touch()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(come_and_go)
        try:
            listings = [spools(tmp_path) for _ in range(500)]
        finally:
            done.set()
    coming.result()
    assert listings == [[spool]] * 500


def settled_segments(directory: Path, count: int) -> Backlog:
    """Write *count* segments and settle all but the last, under one store."""
    spool = Spool(directory, {}, segment=1)
    for _ in range(count):
        spool.write(LINE)
        spool.tend(0)
    backlog = Backlog(directory, alive=True)
    backlog.advance(Position(count, 0), "first")
    spool.close()
    return backlog


def test_what_the_server_has_is_kept_for_a_store_that_takes_its_place(tmp_path: Path) -> None:
    backlog = settled_segments(tmp_path / "p", 4)
    assert (backlog.unsent_bytes(), backlog.epoch) == (len(LINE), "first")

    backlog.rewind("second")

    assert backlog.unsent_bytes() == 4 * len(LINE)
    again = Backlog(tmp_path / "p", alive=True)
    assert (again.position, again.epoch) == (Position(), "second")
    dead = Backlog(tmp_path / "p", alive=False)
    dead.advance(Position(4, 0), "second")
    assert len(list((tmp_path / "p").glob("0*.jsonl"))) <= 2


def test_what_is_kept_is_bounded_by_size_age_and_the_room_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(name: str) -> int:
        settled_segments(tmp_path / name, 5)
        return sum(path.stat().st_size for path in (tmp_path / name).glob("0*.jsonl"))

    whole = kept("whole")
    assert whole == 5 * len(LINE)
    for bound, value in (
        ("_KEPT_BYTES", 2 * len(LINE)), ("_KEPT_SECONDS", -60.0), ("_ROOM_BYTES", 1 << 62),
    ):  # fmt: skip
        with monkeypatch.context() as bounded:
            bounded.setattr(f"ett_service.client.sending.backlog.{bound}", value)
            assert kept(bound) < whole, bound
