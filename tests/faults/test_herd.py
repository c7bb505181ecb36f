"""A server that was away comes back to thousands of trainers, and is not trampled down."""

import logging
import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.builders.servers.programs import free_port
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.web import serving
from tests.builders.trainers import recording
from tests.faults.herd import Herd

log = logging.getLogger(__name__)

OUTAGE_S = 6 * 3600.0
RATED = 5_000  #: events a second, of a thousand producers
MOST_CONNECTS = 500  #: a second
DRAINED_IN_S = 600.0


def run(herd: Herd, seed: int) -> tuple[int, int, float]:
    """Let them meet; return the most events and connects a second, and when all was sent.

    A part of the fleet is less even than the whole, so its events are counted over more seconds.
    """
    herd.run(herd.up + 900)
    seconds = 1000 // herd.size or 1
    of_windows: Counter[int] = Counter()
    for second, count in herd.accepted.items():
        of_windows[second // seconds] += count
    most_events, most_connects = max(of_windows.values()) // seconds, max(herd.connects.values())
    drained_in = herd.caught_up_at - herd.up
    lost = herd.recorded - herd.accepted.total() - herd.unsent
    log.warning(
        "seed %d, %d producers, away for %.0f s: lost %d of %d, most connects %d/s (refused %d/s),"
        " most events %d/s, drained in %.0f s",
        *(seed, herd.size, herd.up - herd.down, lost, herd.recorded, most_connects),
        *(max(herd.refused.values()), most_events, drained_in),
    )
    assert lost == 0
    assert not any(trainer.waits for trainer in herd.trainers)
    return most_events, most_connects, drained_in


@pytest.mark.parametrize("producers", [200, pytest.param(1000, marks=pytest.mark.long, id="long")])
def test_after_hours_the_backlog_comes_at_the_rate_that_the_fleet_is_rated_for(
    producers: int,
) -> None:
    seed = random.randrange(1 << 30)
    herd = Herd(producers, 100.0, 100.0 + OUTAGE_S, random.Random(seed))
    most_events, _, drained_in = run(herd, seed)
    assert most_events <= 1.2 * RATED * producers / 1000
    assert drained_in <= DRAINED_IN_S


@pytest.mark.parametrize(
    ("producers", "away"),
    [
        (2000, 30.0),
        *(
            pytest.param(5000, away, marks=pytest.mark.long, id=f"long-{away:.0f}")
            for away in (2.0, 10.0, 30.0, 120.0, 600.0)
        ),
    ],
)
def test_a_restart_is_followed_by_no_herd(producers: int, away: float) -> None:
    seed = random.randrange(1 << 30)
    herd = Herd(producers, 100.0, 100.0 + away, random.Random(seed))
    _, most_connects, drained_in = run(herd, seed)
    assert most_connects <= MOST_CONNECTS * producers / 5000
    assert drained_in <= DRAINED_IN_S


@pytest.mark.long
def test_real_trainers_get_everything_to_a_server_that_was_away(tmp_path: Path) -> None:
    port = free_port()
    with ExitStack() as stack:
        trainers = [
            stack.enter_context(recording(tmp_path / f"{n}", url=f"http://127.0.0.1:{port}"))
            for n in range(40)
        ]
        for trainer in trainers:
            trainer.recorder.edge_at("phase_started", "evaluation")
        wait_for(lambda: all(each.session.sender.closing().trouble for each in trainers))
        with serving(port=port) as web:
            wait_for(lambda: len(web.events) == len(trainers))
            assert len(web.received) == len(trainers)
