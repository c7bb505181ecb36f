"""``ett bench``: how well detectors find what was planted, and what people labelled."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from ett_service.cli.bench_table import members, write_results, write_scores
from ett_service.cli.output import write_json
from ett_service.cli.progress import counted
from ett_service.cli.verb import Exit, Failure, add_json
from ett_service.trials.bench import CELLS, Plan, causes, scores, try_all
from ett_service.trials.causes import by_cause
from ett_service.trials.engines import FAMILIES, engines, frontier
from ett_service.trials.keeping import keep, kept
from ett_service.trials.labelled import compare, compare_best, labelled
from ett_service.trials.otava import FOLDER, Otava

_FLEETS = 100


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("bench", help="try detectors on data of known truth")
    acts = parser.add_subparsers(dest="act", metavar="detect|changepoints", required=True)
    detect = acts.add_parser(
        "detect",
        help="compare detectors on made-up fleets",
        description="Make fleets of known truth, run each detector over them day by day, and say "
        "how often it was wrong and how often it found what was planted.",
        epilog=f"Cells: {', '.join(CELLS)}. docs/howto/bench-detectors.md explains the table.",
    )
    _add_detect(detect)
    points = acts.add_parser(
        "changepoints", help="compare finders of change points on series that people labelled"
    )
    points.add_argument("folder", type=Path, help="one JSON file a series, as in TCPD")
    for act in (detect, points):
        act.add_argument(
            "--otava", type=Path, default=FOLDER, help=f"where Apache Otava is (default {FOLDER})"
        )
        add_json(act)


def _add_detect(detect: argparse.ArgumentParser) -> None:
    detect.add_argument(
        "--engines",
        type=_words(FAMILIES),
        default=list(FAMILIES),
        help=f"of {','.join(FAMILIES)} (default all)",
    )
    detect.add_argument(
        "--cells", type=_words(CELLS), default=list(CELLS), help="what is planted (default all)"
    )
    detect.add_argument(
        "--fleets", type=int, default=_FLEETS, help=f"of a cell (default {_FLEETS}; some have more)"
    )
    detect.add_argument(
        "--seed", type=int, default=1, help="of each cell's first fleet (default 1)"
    )
    detect.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    detect.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep what was tried there, and go on from it"
    )
    detect.add_argument(
        "--frontier", action="store_true", help="try five thresholds of each detector instead"
    )


def run(args: argparse.Namespace) -> int:
    """Try, and print the table."""
    acts = {"detect": _detect, "changepoints": _changepoints}
    acts[args.act](args)
    return Exit.DONE


def _detect(args: argparse.Namespace) -> None:
    """Try what is missing, and print the table of all."""
    if args.fleets < 1 or args.jobs < 1 or args.seed < 0:
        raise Failure("--fleets and --jobs are at least 1, --seed at least 0")
    chosen = frontier(args.engines) if args.frontier else engines(args.engines)
    plan = Plan(args.cells, chosen, args.fleets, args.seed, args.jobs, args.otava)
    known = kept(args.resume) if args.resume else []
    tried = try_all(plan, known)
    if args.resume:
        tried = keep(args.resume, tried)
    trials = [*known, *counted(tried, "fleets")]
    found, named = scores(plan, trials), by_cause(causes(plan, trials))
    if args.json:
        write_json(members(plan, found, named))
    else:
        write_scores(plan, found, named)


def _changepoints(args: argparse.Namespace) -> None:
    series = labelled(args.folder)
    with Otava(args.otava) as otava:
        results = [*compare(series, otava), *compare_best(series, otava)]
    if args.json:
        write_json({one.finder: {"mean": one.mean, **one.by_series} for one in results})
    else:
        write_results(results)


def _words(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what reads words that stand between commas."""
    allowed = list(known)

    def read(text: str) -> list[str]:
        words = text.split(",")
        if unknown := [word for word in words if word not in allowed]:
            raise argparse.ArgumentTypeError(f"no such: {', '.join(unknown)}")
        return words

    return read
