"""A disk that is full, read-only, another's or garbled costs the trainer nothing."""

import json
import logging
import os
import random
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ett_service.client.identity import Identity
from ett_service.client.lines import Lines
from ett_service.client.sending.backlog import Backlog, spools
from ett_service.client.sending.seals import bare
from ett_service.client.sending.spool import OWNER, Spool
from tests.builders.servers.web import serving
from tests.builders.trainers import environment, run_trainer, spooled

log = logging.getLogger(__name__)

TRAINER = """
import json, os, sys
ett.init()
lost = 0
for n in range(int(sys.argv[1])):
    try:
        with ett.phase("evaluation"):
            pass
    except BaseException:
        lost += 1
from ett_service.client.session import session
from ett_service.client.current import current
spool, lines = current.recorder.spool, current.recorder.lines
print(json.dumps({
    "exceptions": lost, "recorded": next(lines.numbers) - 1, "ring": len(spool.ring),
    "dropped": dict(spool.dropped),
}))
sys.stdout.flush()
os._exit(0)
"""

EVENTS = 1500  #: phases, two events each


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a small disk of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def counted(stdout: str) -> dict[str, Any]:
    """Return what the trainer counted, none of which may be an exception."""
    counts: dict[str, Any] = json.loads(stdout)
    log.warning("%s", counts)
    assert counts["exceptions"] == 0
    return counts


def test_a_full_disk_loses_exactly_what_it_counts(disk: Path) -> None:
    counts = counted(run_trainer(TRAINER, environment(disk), str(EVENTS)).stdout)
    assert len(list(disk.rglob("0*.jsonl"))) <= 3  # and not one for each that failed
    backlog, on_disk, unreadable = Backlog(spools(disk)[0], alive=False), 0, 0
    while (piece := backlog.next_piece(1000, 1 << 20)) is not None:
        on_disk, unreadable = on_disk + len(piece.lines), unreadable + piece.unreadable
        backlog.position = piece.end
    assert 0 < on_disk < counts["recorded"]
    assert counts["ring"] == 1000
    assert counts["recorded"] == on_disk + counts["ring"] + counts["dropped"]["memory_full"]
    assert unreadable <= 1  # where the process died with the line in its memory


def test_a_disk_that_turns_read_only_leaves_the_memory(disk: Path) -> None:
    code = """
import subprocess
ett.init()
open(os.devnull)
""".replace("open(os.devnull)", "with ett.phase('evaluation'): pass")
    remount = f"subprocess.run(['mount', '-o', 'remount,ro', {str(disk)!r}], check=True)\n"
    # A file that is open for writing keeps the disk writable, so it is taken away first.
    blocked = "from ett_service.client.current import current\ncurrent.recorder.spool.close()\n"
    counts = counted(
        run_trainer(code + blocked + remount + TRAINER, environment(disk), "100").stdout
    )
    assert counts["recorded"] == len(spooled(disk)) + counts["ring"]


def test_a_folder_that_may_not_be_written_leaves_the_memory(tmp_path: Path) -> None:
    forbidden = tmp_path / "forbidden"
    forbidden.mkdir(mode=0o500)
    plain_root = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]  # to whom modes apply
    python = [sys.executable, "-c", "import ett_service as ett\n" + TRAINER, "100"]
    done = subprocess.run(
        python if os.geteuid() else plain_root + python,
        env=environment(forbidden),
        capture_output=True,
        text=True,
        check=False,
    )
    counts = counted(done.stdout)
    assert counts["recorded"] == counts["ring"] > 200
    assert list(forbidden.iterdir()) == []


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    first = Spool(tmp_path / "p", {}, segment=1)
    (tmp_path / "p" / "000002.jsonl").symlink_to(victim)
    first.write(b"{}\n")
    first.tend(0)
    first.write(b"{}\n")
    first.close()
    (tmp_path / "p" / OWNER).unlink()
    (tmp_path / "p" / OWNER).symlink_to(victim)
    assert victim.read_text() == "mine"
    assert stat.S_IMODE(victim.stat().st_mode) != 0o600


@pytest.mark.parametrize("values", [3, pytest.param(60, marks=pytest.mark.long, id="long")])
def test_a_garbled_byte_at_any_place_costs_its_own_event_only(tmp_path: Path, values: int) -> None:
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    lines = Lines(Identity("j", "launch", rank=0, host="h"), "p")
    written = [lines.line({"type": "progress", "step": 41, "tokens": 7}) for _ in range(2)]
    data = b"".join(written)
    Spool(tmp_path / "p", {"base_us": lines.base_us}).close()
    segment = tmp_path / "p" / "000001.jsonl"
    faults = lost = 0
    for offset in range(len(data) - 1):  # without the end of the last line, nothing is lost
        owner = data[:offset].count(b"\n")
        for value in {10, *draw.sample(range(256), values)} - {data[offset]}:
            segment.write_bytes(data[:offset] + bytes([value]) + data[offset + 1 :])
            piece = Backlog(tmp_path / "p", alive=False).next_piece(10, 1 << 20)
            assert piece is not None
            others = [bare(each) for place, each in enumerate(written) if place != owner]
            where = (seed, offset, value)
            assert set(others) <= set(piece.lines) <= set(map(bare, written)), where
            assert len(piece.lines) + piece.unreadable == len(written), where
            faults += 1
            lost += piece.unreadable
    log.warning(
        "seed %d: %d bytes garbled, %d events lost, others lost 0, 0 sent as what they were not",
        *(seed, faults, lost),
    )
    assert lost > 0


def test_what_a_full_disk_did_not_take_is_sent_and_the_drops_are_reported(disk: Path) -> None:
    code = TRAINER.replace("os._exit(0)", "ett.flush(60); os._exit(0)")
    with serving() as web:
        counts = counted(run_trainer(code, environment(disk, web.url), str(EVENTS)).stdout)
        batches = [got.batch for got in web.received if got.method == "POST"]
        reported = sum(batch.get("dropped", {}).get("memory_full", 0) for batch in batches)
        log.warning("%d sent, %d reported as dropped", len(web.events), reported)
        assert len(web.events) + reported == counts["recorded"]
