"""Runs detectors over many fleets, on several cores, and goes on where it was interrupted."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.detectors.bounds import chances, has_bound
from benchmarks.detectors.causes import NamedCause, name_cause
from benchmarks.detectors.engines import FAMILIES, OURS, Engine, alerts
from benchmarks.detectors.fleets.fleet import planned_truth, simulate
from benchmarks.detectors.fleets.parameters import DAYS
from benchmarks.detectors.fleets.scenario import CAUSES, NO_CAUSE, Scenario, ScenarioKind
from benchmarks.detectors.fleets.shape import PLAIN, SHAPES
from benchmarks.detectors.otava import FOLDER, Otava
from benchmarks.detectors.scoring import CellScore, Chances, FleetMarks, mark, score
from benchmarks.detectors.trials import DetectorAlert, Trial

_OF_MOST_ATTEMPTS = ("code_version", NO_CAUSE)
_RATES = (12, 60, 300)
_FLEETS_PER_TASK = 5  #: one Otava is started for each task


@dataclass(frozen=True, slots=True)
class BenchCell:
    """A scenario, and how many of its fleets are tried for each that is requested."""

    scenario: Scenario
    times: int = 1
    families: Sequence[str] = FAMILIES  #: of the engines that are tried


def _cells() -> Iterator[BenchCell]:
    for rate in (12, 60, 300):
        yield BenchCell(Scenario(ScenarioKind.NULL, rate))
        yield BenchCell(Scenario(ScenarioKind.MIX, rate))
    for rate in (12, 60):
        yield BenchCell(Scenario(ScenarioKind.OUTAGE, rate, days=1))
        yield BenchCell(Scenario(ScenarioKind.OUTAGE, rate, days=3))
        for factor, times in ((1.3, 1), (1.6, 2), (2.5, 2)):
            yield BenchCell(Scenario(ScenarioKind.CELL, rate, factor), times)
        yield BenchCell(Scenario(ScenarioKind.COHORT, rate, 1.3))
        yield BenchCell(Scenario(ScenarioKind.PHASE, rate, 1.3))
    yield BenchCell(Scenario(ScenarioKind.CELL, 60, 1.15))
    yield BenchCell(Scenario(ScenarioKind.CELL, 300, 1.15))
    yield BenchCell(Scenario(ScenarioKind.CELL, 300, 1.3))
    yield BenchCell(Scenario(ScenarioKind.RELABELLING, 60))
    yield BenchCell(Scenario(ScenarioKind.IMPROVEMENT, 60, 1 / 1.6))
    yield BenchCell(Scenario(ScenarioKind.HANG, 60))
    yield BenchCell(Scenario(ScenarioKind.FAILURES, 60, 3.0))
    for rate in _RATES:
        yield BenchCell(Scenario(ScenarioKind.RAMP, rate, 1.02), families=(OURS,))
        yield BenchCell(Scenario(ScenarioKind.SECOND, rate, 1.6), families=(OURS,))
    yield from _cells_of_steps()
    yield from _cells_of_shapes()
    for cause in (*CAUSES, NO_CAUSE):
        factor = 1.6 if cause in _OF_MOST_ATTEMPTS else 2.5  # other values slow down few attempts
        scenario = Scenario(ScenarioKind.CELL, 60, factor, cause=cause)
        yield BenchCell(scenario, families=(OURS,))


def _cells_of_steps() -> Iterator[BenchCell]:
    """Yield fleets that report steps, which only ours looks at."""
    for scenario in (
        Scenario(ScenarioKind.NULL, 12, times_steps=True),
        Scenario(ScenarioKind.NULL, 60, times_steps=True),
        Scenario(ScenarioKind.MIX, 60, times_steps=True),
        Scenario(ScenarioKind.OUTAGE, 60, days=3, times_steps=True),
        Scenario(ScenarioKind.STEPS, 12, 1.1),
        Scenario(ScenarioKind.STEPS, 60, 1.05),
        Scenario(ScenarioKind.STEPS, 60, 1.1),
    ):
        yield BenchCell(scenario, families=(OURS,))


def _cells_of_shapes() -> Iterator[BenchCell]:
    """Yield fleets of other shapes, which only ours looks at."""
    for shape in SHAPES.values():
        if shape is PLAIN:
            continue
        scenarios = [
            Scenario(ScenarioKind.CELL, rate, factor, shape=shape)
            for rate in _RATES
            for factor in (1.3, 1.6, 2.5)
        ]
        for rate in _RATES:
            scenarios += (
                Scenario(ScenarioKind.NULL, rate, shape=shape),
                Scenario(ScenarioKind.MIX, rate, shape=shape),
                Scenario(ScenarioKind.OUTAGE, rate, days=1, shape=shape),
                Scenario(ScenarioKind.OUTAGE, rate, days=3, shape=shape),
                Scenario(ScenarioKind.RAMP, rate, 1.02, shape=shape),
                Scenario(ScenarioKind.SECOND, rate, 1.6, shape=shape),
            )
            if shape.has_modes:
                scenarios.append(Scenario(ScenarioKind.HITS, rate, shape=shape))
        for scenario in scenarios:
            yield BenchCell(scenario, families=(OURS,))


CELLS: Mapping[str, BenchCell] = {cell.scenario.name: cell for cell in _cells()}


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What is to be tried."""

    cells: Sequence[str]
    engines: Sequence[Engine]
    fleets: int  #: of each cell
    seed: int  #: of each cell's first fleet; the others follow
    jobs: int = 1
    otava: Path = FOLDER
    days: int = DAYS  #: of each fleet that detectors see

    def seeds(self, cell: str) -> range:
        """Return the seeds of a cell's fleets."""
        return range(self.seed, self.seed + self.fleets * CELLS[cell].times)

    def includes(self, trial: Trial) -> bool:
        """Whether the fleet of *trial* is one of the plan's."""
        return trial.cell in self.cells and trial.seed in self.seeds(trial.cell)


@dataclass(frozen=True, slots=True)
class _FleetTask:
    """Fleets of one cell that lack the same engines."""

    cell: str
    seeds: Sequence[int]
    engines: Sequence[Engine]


def try_all(plan: BenchPlan, earlier: Iterable[Trial] = ()) -> Iterator[Trial]:
    """Try what *plan* asks for and no *earlier* trial has, in any order.

    Raises:
        OtavaMissing: where the plan needs it and it is not installed.
    """
    tried = {(trial.cell, trial.seed): set(trial.alerts) for trial in earlier}
    tasks = list(_tasks(plan, tried))
    if plan.jobs == 1:
        for task in tasks:
            yield from _trials(plan, task)
        return
    with ProcessPoolExecutor(plan.jobs) as pool:
        running = [pool.submit(_all_trials, plan, task) for task in tasks]
        try:
            for ended in as_completed(running):
                yield from ended.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _tasks(plan: BenchPlan, tried: Mapping[tuple[str, int], set[str]]) -> Iterator[_FleetTask]:
    for cell in plan.cells:
        seeds_by_engines: dict[tuple[Engine, ...], list[int]] = {}
        for seed in plan.seeds(cell):
            names = tried.get((cell, seed), set())
            missing = tuple(
                engine
                for engine in plan.engines
                if engine.name not in names and engine.family in CELLS[cell].families
            )
            if missing:
                seeds_by_engines.setdefault(missing, []).append(seed)
        for missing, seeds in seeds_by_engines.items():
            for begin in range(0, len(seeds), _FLEETS_PER_TASK):
                yield _FleetTask(cell, seeds[begin : begin + _FLEETS_PER_TASK], missing)


def _all_trials(plan: BenchPlan, task: _FleetTask) -> list[Trial]:
    return list(_trials(plan, task))


def _trials(plan: BenchPlan, task: _FleetTask) -> Iterator[Trial]:
    with ExitStack() as stack:
        needs_otava = any(engine.family == "otava" for engine in task.engines)
        otava = stack.enter_context(Otava(plan.otava)) if needs_otava else None
        for seed in task.seeds:
            fleet = simulate(seed, CELLS[task.cell].scenario)
            by_engine: dict[str, tuple[DetectorAlert, ...]] = {}
            seconds: dict[str, float] = {}
            for engine in task.engines:
                begin = time.process_time()
                by_engine[engine.name] = tuple(alerts(engine, fleet, otava, plan.days))
                seconds[engine.name] = round(time.process_time() - begin, 3)
            yield Trial(task.cell, seed, by_engine, seconds, round(fleet.truth.impact, 7))


def scores(plan: BenchPlan, trials: Iterable[Trial]) -> dict[tuple[str, str], CellScore]:
    """Return the score of each engine in each cell, by both names, as far as it was tried.

    An engine with a floor under costs is scored on the fleets whose change reaches it.
    """
    marks: dict[tuple[str, str], list[FleetMarks]] = {}
    bounds: dict[tuple[str, str], list[Chances]] = {}
    for trial in filter(plan.includes, trials):
        scenario = CELLS[trial.cell].scenario
        truth = planned_truth(trial.seed, scenario)
        bound = chances(simulate(trial.seed, scenario)) if has_bound(scenario) else None
        for engine in plan.engines:
            if engine.name in trial.alerts and engine.counts(trial.impact):
                fleet_marks = mark(truth, trial.alerts[engine.name])
                marks.setdefault((trial.cell, engine.name), []).append(fleet_marks)
                if bound is not None:
                    bounds.setdefault((trial.cell, engine.name), []).append(bound)
    return {names: score(of_fleets, bounds.get(names, ())) for names, of_fleets in marks.items()}


def named_causes(plan: BenchPlan, trials: Iterable[Trial]) -> Iterator[NamedCause]:
    """Yield the cause that is named for each change that ours found, where one is planted."""
    for trial in filter(plan.includes, trials):
        scenario = CELLS[trial.cell].scenario
        named = name_cause(trial, scenario, OURS) if scenario.cause else None
        if named is not None:
            yield named
