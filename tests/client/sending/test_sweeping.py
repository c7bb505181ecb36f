"""What is given up first where there is no room, and what nobody has sent for too long."""

import json
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from ett_service.client.identity import Identity
from ett_service.client.lines import Lines
from ett_service.client.sending.backlog import Backlog, adopted
from ett_service.client.sending.seals import bare
from ett_service.client.sending.spool import EDGE, FACT, PROGRESS, Spool, importance
from ett_service.client.sending.sweeping import KEPT_SECONDS, sweep

LINES = Lines(Identity("j", "launch"), "p")


def line_of(kind: str, n: int = 0, **members: object) -> bytes:
    return LINES.line({"type": kind, "step": n, **members})


def kinds_of(lines: Iterable[bytes]) -> list[str]:
    return [json.loads(bare(line))["type"] for line in lines]


@pytest.mark.parametrize(
    ("line", "matters"),
    [
        (line_of("progress"), PROGRESS),
        (line_of("heartbeat", attributes={"type": "job"}), PROGRESS),
        (line_of("span"), EDGE),
        (line_of("job", labels={"type": "progress"}), FACT),
        (Lines(Identity('"type":"progress"'), "p").line({"type": "attempt_ended"}), FACT),
    ],
)
def test_a_lines_importance_follows_from_its_type(line: bytes, matters: int) -> None:
    assert importance(line) == matters


def test_memory_gives_up_the_oldest_progress_first_and_facts_last(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spool = Spool(tmp_path / "file" / "p", {})
    spool.write_fact(line_of("attempt_started"))
    spool.write(line_of("phase_started"))
    for n in range(1200):
        spool.write_droppable(line_of("progress", n))
    steps = [json.loads(bare(line))["step"] for line in spool.ring[2:]]
    assert kinds_of(spool.ring[:2]) == ["attempt_started", "phase_started"]
    assert steps == list(range(202, 1200))
    assert spool.dropped == {"memory_full": 202}
    for _ in range(1200):
        spool.write(line_of("phase_ended"))
    assert kinds_of(spool.take(2)) == ["attempt_started", "phase_ended"]
    spool.put_back([line_of("attempt_started")])
    assert kinds_of(spool.ring[:1]) == ["attempt_started"]
    spool.close()


def test_a_full_spool_has_room_for_facts_longer_than_for_edges(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "p", {}, limit=100)
    spool.tend(unsent=5 << 20)
    spool.write(line_of("phase_started"))
    spool.write_fact(line_of("attempt_ended"))
    assert kinds_of(spool.ring) == ["phase_started"]
    assert (tmp_path / "p" / "000001.jsonl").read_bytes().count(b"\n") == 1
    spool.tend(unsent=9 << 20)
    spool.write_fact(line_of("attempt_ended"))
    assert kinds_of(spool.ring) == ["attempt_ended", "phase_started"]
    spool.close()


def old_spool(directory: Path, kinds: Sequence[str], *, age_s: float = 0) -> list[Path]:
    """Leave a spool with one line in each segment, last written so long ago."""
    spool = Spool(directory, {}, segment=1)
    for kind in kinds:
        spool.write(line_of(kind))
        spool.tend(0)
    spool.close()
    for path in directory.iterdir():
        os.utime(path, (time.time() - age_s,) * 2)
    return sorted(directory.glob("0*.jsonl"))


def test_of_a_full_spool_the_oldest_progress_is_given_up(tmp_path: Path) -> None:
    kinds = ["progress", "phase_started", "progress", "attempt_ended", "progress", "heartbeat"]
    paths = old_spool(tmp_path / "p", kinds, age_s=60)
    backlog = Backlog(tmp_path / "p", alive=True)
    assert backlog.thin(excess=paths[0].stat().st_size + 1) == 2
    assert [path.stat().st_size > 0 for path in paths[:6]] == [False, True, False, *[True] * 3]
    piece_kinds = []
    while piece := backlog.next_piece(10, 1 << 20):
        piece_kinds += [json.loads(line)["type"] for line in piece.lines]
        backlog.advance(piece.end)
    assert piece_kinds == ["phase_started", "attempt_ended", "progress", "heartbeat"]


def test_a_live_spool_gives_up_what_is_old_but_not_where_it_writes(tmp_path: Path) -> None:
    old_spool(tmp_path / "p", ["attempt_started", "progress"], age_s=1000)
    backlog = Backlog(tmp_path / "p", alive=True)
    assert backlog.expire(time.time() - 2000) == 0
    assert backlog.expire(time.time() - 500) == 2
    assert len(list((tmp_path / "p").glob("0*.jsonl"))) == 1


def test_what_nobody_has_sent_for_a_week_is_given_up_and_counted(tmp_path: Path) -> None:
    old_spool(tmp_path / "job" / "old", ["attempt_started", "progress"], age_s=KEPT_SECONDS + 60)
    old_spool(tmp_path / "job" / "young", ["progress"], age_s=KEPT_SECONDS - 60)
    old_spool(tmp_path / "job" / "refused", ["progress"])
    with adopted(tmp_path / "job" / "refused") as backlog:
        assert backlog is not None
        backlog.refuse([(b"{}", "unknown_phase")])
        backlog.discard()
    (refused,) = (tmp_path / "job" / "refused").iterdir()
    os.utime(refused, (time.time() - KEPT_SECONDS - 60,) * 2)
    live = Spool(tmp_path / "job" / "live", {})
    live.write(line_of("heartbeat"))
    for path in (tmp_path / "job" / "live").iterdir():
        os.utime(path, (time.time() - KEPT_SECONDS - 60,) * 2)

    assert sweep(tmp_path, time.time()) == {"spool_old": 2}
    assert {path.name for path in (tmp_path / "job").iterdir()} == {"young", "live"}
    old_spool(tmp_path / "job" / "next", ["progress"], age_s=KEPT_SECONDS + 60)
    assert sweep(tmp_path, time.time()) == {}  # within the hour
    assert sweep(tmp_path, time.time() + 3601) == {"spool_old": 2}
    live.close()


def test_beyond_their_share_of_the_disk_the_oldest_spools_go_first(tmp_path: Path) -> None:
    for name, age_s in (("a", 300), ("b", 200), ("c", 100)):
        old_spool(tmp_path / "job" / name, ["progress"], age_s=age_s)
    size = sum(path.stat().st_size for path in (tmp_path / "job" / "c").iterdir())
    assert sweep(tmp_path, time.time(), most_bytes=2 * size) == {"spool_full": 1}
    assert {path.name for path in (tmp_path / "job").iterdir()} == {"b", "c"}
