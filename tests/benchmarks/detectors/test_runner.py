"""A run goes on where it was interrupted, tries every cell, and scores the seeds of its plan."""

import json
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.detectors.engines import FAMILIES, OURS_COSTLY, Engine, engines, frontier
from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.fleet import planned_truth
from benchmarks.detectors.fleets.parameters import CHANGED_ON
from benchmarks.detectors.peers import Grain
from benchmarks.detectors.runner import CELLS, BenchPlan, scores, try_all
from benchmarks.detectors.scoring import Proportion
from benchmarks.detectors.trials import (
    DetectorAlert,
    Trial,
    UnreadableTrials,
    append_trials,
    read_trials,
)
from ett_service.core.regressions.finding import Series

CUSUM = Engine("cusum", Grain.CELL)
WEEKS = Engine("threshold", Grain.FLEET)
CELL = "cell-2.5@12"


def _plan(*chosen: Engine, fleets: int = 2, jobs: int = 1) -> BenchPlan:
    return BenchPlan([CELL], chosen, fleets, seed=3, jobs=jobs)


def test_what_was_tried_is_not_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    plan = _plan(CUSUM)
    begun = list(islice(append_trials(file, try_all(plan, read_trials(file))), 3))
    assert [trial.seed for trial in begun] == [3, 4, 5]
    rest = list(append_trials(file, try_all(plan, read_trials(file))))
    assert [trial.seed for trial in rest] == [6]
    assert read_trials(file) == [*begun, *rest]
    assert not list(try_all(plan, read_trials(file)))


def test_another_engine_is_tried_on_the_same_fleets_and_put_beside(tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    first = list(append_trials(file, try_all(_plan(CUSUM))))
    more = list(append_trials(file, try_all(_plan(CUSUM, WEEKS), read_trials(file))))
    assert [set(trial.alerts) for trial in more] == [{WEEKS.name}] * len(first)
    assert [set(trial.alerts) for trial in read_trials(file)] == [{CUSUM.name, WEEKS.name}] * len(
        first
    )


def test_a_line_that_was_not_written_whole_is_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    plan = _plan(WEEKS, fleets=1)
    whole = list(append_trials(file, try_all(plan)))
    text = file.read_text()
    file.write_text(text[:-10])
    assert read_trials(file) == whole[:-1]
    assert [trial.seed for trial in append_trials(file, try_all(plan, read_trials(file)))] == [4]
    assert [json.loads(line)["seed"] for line in file.read_text().splitlines()] == [3, 4]


def test_what_is_no_trial_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text('{"a": 1}\n{}\n')
    with pytest.raises(UnreadableTrials, match="line 1"):
        read_trials(file)


@pytest.mark.slow
def test_two_processes_find_what_one_finds() -> None:
    def alerts(jobs: int) -> dict[int, object]:
        return {trial.seed: trial.alerts for trial in try_all(_plan(CUSUM, fleets=3, jobs=jobs))}

    assert alerts(2) == alerts(1)


def test_scores_are_of_the_seeds_that_are_asked_for() -> None:
    truth = planned_truth(3, CELLS[CELL].scenario)
    right = DetectorAlert(47, Series(truth.phases[0], truth.cohorts[0]))
    trials = [Trial(CELL, seed, {CUSUM.name: (right,)}, {}) for seed in (3, 99)]
    by_cell = scores(_plan(CUSUM), trials)
    assert by_cell[CELL, CUSUM.name].right_cell == Proportion(1, 1)


def test_the_floor_under_costs_is_held_to_what_costs_enough() -> None:
    costly = Engine(OURS_COSTLY)
    trials = [
        Trial(CELL, seed, {costly.name: ()}, {}, impact)
        for seed, impact in ((3, 0.0001), (4, 0.01))
    ]
    assert scores(_plan(costly), trials)[CELL, costly.name].fleets == 1


def test_peers_are_tried_at_every_grain_and_all_at_five_thresholds() -> None:
    names = [engine.name for engine in engines(FAMILIES)]
    assert len(set(names)) == len(names) == 2 + 4 * len(Grain)
    tried = frontier(FAMILIES)
    assert len({engine.name for engine in tried}) == 5 * len(FAMILIES)


@pytest.mark.xdist_group("every-cell")
@pytest.mark.long
@pytest.mark.parametrize("cell", CELLS)
def test_one_fleet_of_every_cell_is_tried(cell: str) -> None:
    chosen = (Engine("ours"), CUSUM)
    plan = BenchPlan([cell], chosen, 1, seed=1, days=CHANGED_ON + 3)
    (trial,) = islice(try_all(plan), 1)
    of = {engine.name for engine in chosen if engine.family in CELLS[cell].families}
    assert set(trial.alerts) == of
    subjects = {alert.series.subject for alerts in trial.alerts.values() for alert in alerts}
    assert subjects <= _subjects()
    by_cell = scores(plan, [trial])
    assert by_cell[cell, "ours"].false <= 2


def _subjects() -> set[object]:
    """Return all subjects of a fleet."""
    return {
        *(phase.subject for phase in parameters.PHASES),
        *parameters.MISSES.values(),
        parameters.TIME_TO_START,
        parameters.TIME_TO_RECOVER,
        parameters.UNSAVED_TIME,
        parameters.FAILURES,
        *parameters.FAILURES_BY_CAUSE,
        parameters.ETT,
        parameters.STEPS,
    }
