"""What recording takes of the training thread, and the totals that each rank sends."""

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ett_service.client.recorder import Cost
from ett_service.client.reporting.loop import train_loop
from ett_service.client.reporting.phase import phase
from ett_service.client.session import step
from ett_service.client.torch import batches
from ett_service.client.torch.states import body_of
from tests.builders.trainers import environment, recording, run_trainer, spooled

LONGER_NS = 5_000_000


def test_a_part_is_not_counted_beside_the_whole() -> None:
    cost = Cost()
    cost.count_here()
    whole = cost.begin()
    for _ in range(3):
        part = cost.begin()
        time.sleep(LONGER_NS / 1e9)
        cost.end(part)
    in_parts = cost.ns
    cost.end(whole)

    assert 3 * LONGER_NS <= in_parts <= cost.ns
    cost.end(cost.begin())
    assert cost.ns < 2 * in_parts


def test_what_other_threads_do_is_not_counted() -> None:
    cost = Cost()
    cost.count_here()
    begun = cost.begin()
    other = threading.Thread(target=cost.end, args=(begun,))
    other.start()
    other.join()

    assert cost.ns == 0


def test_what_a_call_writes_is_counted_and_a_step_in_memory_is_not(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        step(1)
        before = here.recorder.cost.ns
        for n in range(2, 100):
            step(n)
        assert here.recorder.cost.ns == before > 0
        here.recorder.write({"type": "heartbeat"})
        assert here.recorder.cost.ns > before


@pytest.mark.parametrize("rank", [0, 3])
def test_every_rank_sends_its_totals_with_its_signs_of_life(
    tmp_path: Path, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recording(tmp_path, rank=rank) as here, train_loop():
        for n in range(100, 151):
            step(n)
        here.recorder.running_totals["data_wait_seconds"] = 0.5
        monkeypatch.setattr("ett_service.client.recorder.HEARTBEAT_EVERY_NS", 0)
        here.recorder.tick()
        beat = here.events_of("heartbeat")[-1]

    totals = beat["attributes"]
    assert (beat["rank"], totals["steps"], totals["data_wait_seconds"]) == (rank, 50, 0.5)
    first, last = here.recorder.first_step, here.recorder.steps.last
    assert first is not None
    assert last is not None
    assert totals["loop_seconds"] == (last[0] - first[0]) / 1e9
    assert 0 < totals["telemetry_seconds"] < totals["loop_seconds"] + 60


def test_steps_that_are_no_numbers_or_fall_cost_no_sign_of_life(tmp_path: Path) -> None:
    with recording(tmp_path) as here, train_loop():
        step(7)
        for n in ("eight", 3, None):
            step(n)  # type: ignore[arg-type]
            assert set(here.recorder.totals()) == {"telemetry_seconds"}


def test_the_end_of_an_attempt_carries_the_totals_and_init_is_counted(tmp_path: Path) -> None:
    code = """
import time
init = ett.init
before = time.perf_counter()
init()
took = time.perf_counter() - before
for n in range(5):
    ett.step(n)
ett.end()
print(took)
"""
    done = run_trainer(code, environment(tmp_path))
    assert done.returncode == 0, done.stderr
    [end] = [event for event in spooled(tmp_path) if event["type"] == "attempt_ended"]

    assert end["attributes"]["steps"] == 4
    assert end["attributes"]["telemetry_seconds"] > 0.5 * json.loads(done.stdout)


def test_a_launcher_that_trains_nothing_sends_no_totals(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        setup = here.session.setup
        assert setup is not None
        launcher = here.session.begin(setup)
        assert launcher.totals() == {}


class _Iterator:
    def __next__(self) -> int:
        time.sleep(0.01)
        return 1


class _Loader:
    def __iter__(self) -> _Iterator:
        return _Iterator()


def test_waits_for_data_are_those_of_the_loop_and_the_hook_counts_its_own_time(
    tmp_path: Path,
) -> None:
    batches.hook(SimpleNamespace(_BaseDataLoaderIter=_Iterator, DataLoader=_Loader))
    with recording(tmp_path) as here:
        iterator = iter(_Loader())
        next(iterator)
        with train_loop():
            step(1)
            assert "data_wait_seconds" not in here.recorder.totals()
            before = here.recorder.cost.ns
            next(iterator)
            waited = here.recorder.totals()["data_wait_seconds"]
            with phase("evaluation"):
                next(iterator)
            assert 0.01 <= waited == here.recorder.totals()["data_wait_seconds"]
            assert here.recorder.cost.ns > before


def test_what_a_hook_does_is_counted(tmp_path: Path) -> None:
    hooked = body_of("data", None)(time.sleep)
    with recording(tmp_path) as here:
        before = here.recorder.cost.ns
        hooked(LONGER_NS / 1e9)
        assert here.recorder.cost.ns - before >= LONGER_NS
    hooked(0)
