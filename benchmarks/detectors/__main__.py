"""``python -m benchmarks.detectors``: how well detectors find planted and labelled changes."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.detectors.bounds import told
from benchmarks.detectors.calibration import pooled, spreads
from benchmarks.detectors.causes import by_cause
from benchmarks.detectors.engines import FAMILIES, engines, frontier
from benchmarks.detectors.fleets.parameters import PHASES
from benchmarks.detectors.fleets.scenario import Scenario
from benchmarks.detectors.fleets.shape import SHAPES
from benchmarks.detectors.labelled import compare, compare_best, read_labelled
from benchmarks.detectors.one_search import DAYS_AFTER, search_once
from benchmarks.detectors.otava import FOLDER, Otava
from benchmarks.detectors.report import (
    labelled_json,
    scores_json,
    write_labelled,
    write_one_search,
    write_scores,
)
from benchmarks.detectors.runner import CELLS, BenchPlan, named_causes, scores, try_all
from benchmarks.detectors.trials import append_trials, read_trials
from ett_service.cli.output import write_json
from ett_service.cli.progress import counted
from ett_service.cli.verb import Exit, Failure, add_json
from ett_service.core.errors import EttError
from ett_service.detection.sample import Options

_FLEETS = 100
_INTERRUPTED = 130  # what shells report of a command that SIGINT ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run one comparison and return the exit code."""
    args = _parser().parse_args(argv)
    try:
        _ACTS[args.act](args)
    except (EttError, OSError) as error:
        print(f"benchmarks.detectors: {error}", file=sys.stderr)
        if isinstance(error, EttError) and error.hint:
            print(f"    {error.hint}", file=sys.stderr)
        return Exit.FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    return Exit.DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.detectors",
        description="Compare detectors of regressions on data whose changes are known.",
    )
    acts = parser.add_subparsers(dest="act", metavar="|".join(_ACTS), required=True)
    detect = acts.add_parser(
        "detect",
        help="compare detectors on simulated fleets",
        description="Simulate fleets with planted changes, run each detector over them day by "
        "day, and count its false alerts and the changes that it found.",
        epilog=f"Cells: {', '.join(CELLS)}. docs/howto/bench-detectors.md explains the table.",
    )
    _add_detect(detect)
    once = acts.add_parser(
        "once",
        help="search each fleet once, without the states of findings",
        description=f"Search each simulated fleet once, on day {DAYS_AFTER + 1} of its change, or "
        "on three days where there is none, and print the false findings of a search and the "
        "share of the changes that were found.",
    )
    _add_fleets(once)
    once.add_argument(
        "--q",
        type=float,
        default=Options().q,
        help=f"share of false findings that is allowed (default {Options().q:g})",
    )
    change_points = acts.add_parser(
        "changepoints",
        help="compare finders of change points on series that people labelled",
        description="Score finders of change points on labelled series by F1.",
    )
    change_points.add_argument("folder", type=Path, help="one JSON file a series, as in TCPD")
    for act in (detect, change_points):
        act.add_argument(
            "--otava", type=Path, default=FOLDER, help=f"folder of Apache Otava (default {FOLDER})"
        )
        add_json(act)
    spread = acts.add_parser(
        "spread",
        help="print how scores of fleets without a change spread; 1 is right",
        description="Simulate fleets of each shape in which nothing changes, and print the "
        "deviation of the scores of small, middle and large cohorts and of groups of them, how "
        "many of 10,000 are over 3 and under -3 (13 and 13 are right), and their number.",
    )
    _add_spread(spread)
    surely = acts.add_parser(
        "told",
        help="print how surely scores of values tell a slowdown; 1 is all that the law allows",
        description="Print, for each shape and phase, how surely the score of a value tells a "
        "slowdown, relative to what its law allows: the shares are those of standard deviations.",
    )
    surely.add_argument("--factor", type=float, default=1.6, help="of the slowdown (default 1.6)")
    surely.add_argument("--shapes", type=_words(SHAPES), default=list(SHAPES), help="(default all)")
    return parser


def _add_detect(detect: argparse.ArgumentParser) -> None:
    detect.add_argument(
        "--engines",
        type=_words(FAMILIES),
        default=list(FAMILIES),
        help=f"detectors, of {','.join(FAMILIES)} (default all)",
    )
    _add_fleets(detect)
    detect.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep results in FILE, and continue from it"
    )
    detect.add_argument(
        "--frontier", action="store_true", help="try five thresholds of each detector instead"
    )


def _add_fleets(act: argparse.ArgumentParser) -> None:
    act.add_argument(
        "--cells", type=_words(CELLS), default=list(CELLS), help="what is planted (default all)"
    )
    act.add_argument(
        "--fleets",
        type=int,
        default=_FLEETS,
        help=f"fleets of each cell (default {_FLEETS}; of some, detect tries twice as many)",
    )
    act.add_argument(
        "--seed", type=int, default=1, help="seed of each cell's first fleet (default 1)"
    )
    act.add_argument("--jobs", type=int, default=1, help="processes (default 1)")


def _add_spread(spread: argparse.ArgumentParser) -> None:
    spread.add_argument(
        "--fleets", type=int, default=12, help="of each shape and rate (default 12)"
    )
    spread.add_argument("--seed", type=int, default=7000, help="of the first (default 7000)")
    spread.add_argument("--shapes", type=_words(SHAPES), default=list(SHAPES), help="(default all)")
    spread.add_argument("--rates", type=int, nargs="+", default=[12, 60], help="attempts a day")


def _words(allowed: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a reader of words between commas."""
    choices = list(allowed)

    def read(text: str) -> list[str]:
        words = text.split(",")
        if unknown := [word for word in words if word not in choices]:
            raise argparse.ArgumentTypeError(f"no such: {', '.join(unknown)}")
        return words

    return read


def _check_fleets(args: argparse.Namespace) -> None:
    if args.fleets < 1 or args.jobs < 1 or args.seed < 0:
        raise Failure("--fleets and --jobs are at least 1, --seed at least 0")


def _detect(args: argparse.Namespace) -> None:
    """Try what is missing, and print the table of all."""
    _check_fleets(args)
    chosen = frontier(args.engines) if args.frontier else engines(args.engines)
    plan = BenchPlan(args.cells, chosen, args.fleets, args.seed, args.jobs, args.otava)
    earlier = read_trials(args.resume) if args.resume else []
    tried = try_all(plan, earlier)
    if args.resume:
        tried = append_trials(args.resume, tried)
    trials = [*earlier, *counted(tried, "fleets")]
    by_cell, causes = scores(plan, trials), by_cause(named_causes(plan, trials))
    if args.json:
        write_json(scores_json(plan, by_cell, causes))
    else:
        write_scores(plan, by_cell, causes)


def _once(args: argparse.Namespace) -> None:
    _check_fleets(args)
    if not 0 < args.q < 1:
        raise Failure("--q lies between 0 and 1")
    seeds = range(args.seed, args.seed + args.fleets)
    by_cell = (search_once(cell, seeds, args.jobs, args.q) for cell in args.cells)
    write_one_search(list(counted(by_cell, "cells")))


def _change_points(args: argparse.Namespace) -> None:
    series = read_labelled(args.folder)
    with Otava(args.otava) as otava:
        by_finder = [*compare(series, otava), *compare_best(series, otava)]
    if args.json:
        write_json(labelled_json(by_finder))
    else:
        write_labelled(by_finder)


def _spread(args: argparse.Namespace) -> None:
    for shape in args.shapes:
        for rate in args.rates:
            scenario = Scenario(attempts_per_day=rate, shape=SHAPES[shape])
            by_size = pooled(spreads(scenario, range(args.seed, args.seed + args.fleets)))
            cells = (
                f"{size} {each.deviation:.2f} {10_000 * each.worse:.0f}/{10_000 * each.better:.0f}"
                f" ({each.number:,})"
                for size, each in by_size.items()
            )
            print(f"{shape:>10} {rate:4} a day  {'  '.join(cells)}", flush=True)


def _told(args: argparse.Namespace) -> None:
    if args.factor <= 1:
        raise Failure("--factor is over 1")
    for shape in args.shapes:
        cells = (
            f"{phase.subject.phase or phase.subject.metric} "
            f"{told(SHAPES[shape], phase, args.factor):.2f}"
            for phase in PHASES
        )
        print(f"{shape:>10}  {'  '.join(cells)}", flush=True)


_ACTS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "detect": _detect,
    "once": _once,
    "changepoints": _change_points,
    "spread": _spread,
    "told": _told,
}

if __name__ == "__main__":
    sys.exit(main())
