"""Runs detectors over many fleets, on several cores, and goes on where it was ended."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.detectors.alert import Trial
from benchmarks.detectors.causes import NONE, Named, name_cause
from benchmarks.detectors.engines import FAMILIES, OURS, Engine, alerts
from benchmarks.detectors.fleet import simulate, told_beforehand
from benchmarks.detectors.otava import FOLDER, Otava
from benchmarks.detectors.planting import CAUSES
from benchmarks.detectors.scenario import DAYS, Kind, Scenario
from benchmarks.detectors.scoring import Marks, Score, mark, score

_OF_MOST = ("code_version", NONE)
_PER_TASK = 5  #: fleets, for which one Otava is started


@dataclass(frozen=True, slots=True)
class Cell:
    """A scenario, and how many fleets of it are tried for each that is asked for."""

    scenario: Scenario
    times: int = 1
    families: Sequence[str] = FAMILIES  #: of engines that are tried there


def _cells() -> Iterator[Cell]:
    for rate in (12, 60, 300):
        yield Cell(Scenario(Kind.NULL, rate))
        yield Cell(Scenario(Kind.MIX, rate))
    for rate in (12, 60):
        yield Cell(Scenario(Kind.OUTAGE, rate, days=1))
        yield Cell(Scenario(Kind.OUTAGE, rate, days=3))
        for factor, times in ((1.3, 1), (1.6, 2), (2.5, 2)):
            yield Cell(Scenario(Kind.CELL, rate, factor), times)
        yield Cell(Scenario(Kind.COHORT, rate, 1.3))
        yield Cell(Scenario(Kind.PHASE, rate, 1.3))
    yield Cell(Scenario(Kind.CELL, 60, 1.15))
    yield Cell(Scenario(Kind.CELL, 300, 1.15))
    yield Cell(Scenario(Kind.CELL, 300, 1.3))
    yield Cell(Scenario(Kind.RELABELLING, 60))
    yield Cell(Scenario(Kind.IMPROVEMENT, 60, 1 / 1.6))
    yield Cell(Scenario(Kind.HANG, 60))
    yield Cell(Scenario(Kind.FAILURES, 60, 3.0))
    for cause in (*CAUSES, NONE):
        factor = 1.6 if cause in _OF_MOST else 2.5  # of others only some are slower
        yield Cell(Scenario(Kind.CELL, 60, factor, cause=cause), families=(OURS,))


CELLS: Mapping[str, Cell] = {cell.scenario.name: cell for cell in _cells()}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be tried."""

    cells: Sequence[str]
    engines: Sequence[Engine]
    fleets: int  #: of a cell
    seed: int  #: of its first; the others follow
    jobs: int = 1
    otava: Path = FOLDER
    days: int = DAYS  #: of each fleet, that are looked at

    def seeds(self, cell: str) -> range:
        """Return those of a cell's fleets."""
        return range(self.seed, self.seed + self.fleets * CELLS[cell].times)


def try_all(plan: Plan, known: Iterable[Trial] = ()) -> Iterator[Trial]:
    """Try what *plan* asks for and is not *known*, in any order.

    Raises:
        OtavaMissing: where that is asked for and not installed.
    """
    done = {(one.cell, one.seed): set(one.alerts) for one in known}
    tasks = list(_tasks(plan, done))
    if plan.jobs == 1:
        for task in tasks:
            yield from _try(plan, *task)
        return
    with ProcessPoolExecutor(plan.jobs) as pool:
        running = [pool.submit(_tried, plan, *task) for task in tasks]
        try:
            for ended in as_completed(running):
                yield from ended.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _tasks(
    plan: Plan, done: Mapping[tuple[str, int], set[str]]
) -> Iterator[tuple[str, list[int], list[Engine]]]:
    """Yield cells, seeds and engines; those of one task lack the same engines."""
    for cell in plan.cells:
        lacking: dict[tuple[Engine, ...], list[int]] = {}
        for seed in plan.seeds(cell):
            has = done.get((cell, seed), set())
            lacks = tuple(
                engine
                for engine in plan.engines
                if engine.name not in has and engine.family in CELLS[cell].families
            )
            if lacks:
                lacking.setdefault(lacks, []).append(seed)
        for lacks, seeds in lacking.items():
            for begin in range(0, len(seeds), _PER_TASK):
                yield cell, seeds[begin : begin + _PER_TASK], list(lacks)


def _tried(plan: Plan, cell: str, seeds: list[int], engines: list[Engine]) -> list[Trial]:
    return list(_try(plan, cell, seeds, engines))


def _try(plan: Plan, cell: str, seeds: list[int], engines: list[Engine]) -> Iterator[Trial]:
    with ExitStack() as stack:
        asked = any(engine.family == "otava" for engine in engines)
        otava = stack.enter_context(Otava(plan.otava)) if asked else None
        for seed in seeds:
            fleet = simulate(seed, CELLS[cell].scenario)
            told, seconds = {}, {}
            for engine in engines:
                begin = time.process_time()
                told[engine.name] = tuple(alerts(engine, fleet, otava, plan.days))
                seconds[engine.name] = round(time.process_time() - begin, 3)
            yield Trial(cell, seed, told, seconds, round(fleet.truth.impact, 7))


def scores(plan: Plan, trials: Iterable[Trial]) -> dict[tuple[str, str], Score]:
    """Return what each engine made of each cell, by the names of both, as far as was tried.

    One that is to tell only of what costs enough is held to the fleets in which it does.
    """
    marks: dict[tuple[str, str], list[Marks]] = {}
    asked = {(cell, seed) for cell in plan.cells for seed in plan.seeds(cell)}
    for trial in trials:
        if (trial.cell, trial.seed) not in asked:
            continue
        truth = told_beforehand(trial.seed, CELLS[trial.cell].scenario)
        for engine in plan.engines:
            if engine.name in trial.alerts and engine.counts(trial.impact):
                told = trial.alerts[engine.name]
                marks.setdefault((trial.cell, engine.name), []).append(mark(truth, told))
    return {place: score(found) for place, found in marks.items()}


def causes(plan: Plan, trials: Iterable[Trial]) -> Iterator[Named]:
    """Yield what is named for the changes that were found, in fleets where that is planted."""
    asked = {(cell, seed) for cell in plan.cells for seed in plan.seeds(cell)}
    for trial in trials:
        scenario = CELLS[trial.cell].scenario
        if scenario.cause and (trial.cell, trial.seed) in asked:
            named = name_cause(trial, scenario, OURS)
            if named is not None:
                yield named
