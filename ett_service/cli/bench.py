"""``ett bench``: how well detectors find what was planted in made-up fleets."""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ett_service.cli.arguments import add_json
from ett_service.cli.exits import Exit, Failure
from ett_service.cli.output import counted, write_json, write_line, write_table
from ett_service.trials.bench import CELLS, Plan, causes, scores, try_all
from ett_service.trials.causes import by_cause
from ett_service.trials.engines import FAMILIES, OURS, engines, frontier
from ett_service.trials.keeping import keep, kept
from ett_service.trials.otava import FOLDER
from ett_service.trials.scenario import Kind
from ett_service.trials.scoring import EXPECTED, Part, Score, alerts_are_right

Scores = Mapping[tuple[str, str], Score]

_FLEETS = 100
_COLUMNS = (
    "cell", "engine", "fleets", "false/month", "noticed", "right cohort", "right cell", "first",
    "onset", "days", "precision", "F1",
)  # fmt: skip


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("bench", help="try detectors on made-up fleets")
    acts = parser.add_subparsers(dest="act", metavar="detect", required=True)
    detect = acts.add_parser(
        "detect",
        help="compare detectors on the same fleets",
        description="Make fleets of known truth, run each detector over them day by day, and say "
        "how often it was wrong and how often it found what was planted.",
        epilog=f"Cells: {', '.join(CELLS)}. docs/howto/bench-detectors.md explains the table.",
    )
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
    detect.add_argument(
        "--otava", type=Path, default=FOLDER, help=f"where Apache Otava is (default {FOLDER})"
    )
    add_json(detect)


def run(args: argparse.Namespace) -> int:
    """Try what is missing, and print the table of all."""
    if args.fleets < 1 or args.jobs < 1 or args.seed < 0:
        raise Failure("--fleets and --jobs are at least 1, --seed at least 0")
    chosen = frontier(args.engines) if args.frontier else engines(args.engines)
    plan = Plan(args.cells, chosen, args.fleets, args.seed, args.jobs, args.otava)
    known = kept(args.resume) if args.resume else []
    tried = try_all(plan, known)
    trials = [*known, *counted(keep(args.resume, tried) if args.resume else tried, "fleets")]
    found = scores(plan, trials)
    named = by_cause(causes(plan, trials))
    if args.json:
        write_json(_members(plan, found, named))
    else:
        _write(plan, found, named)
    return Exit.DONE


def _write(plan: Plan, found: Scores, named: Mapping[str, Part]) -> None:
    places = [
        (cell, engine.name)
        for cell in plan.cells
        for engine in plan.engines
        if (cell, engine.name) in found
    ]
    rows = [(*place, *_shown(place[0], found[place])) for place in places]
    write_table(_COLUMNS, rows, right=_COLUMNS[2:])
    if named:
        write_line()
        write_table(
            ("goes with", "named first"),
            [(cause, _part(part)) for cause, part in named.items()],
            right=("named first",),
        )
    write_line()
    for line in _lost(plan, found):
        write_line(line)
    last = max(plan.seeds(cell)[-1] for cell in plan.cells)
    write_line(f"Seeds {plan.seed} to {last}. Intervals are Wilson's, at 95 %.")


def _shown(cell: str, one: Score) -> tuple[str, ...]:
    scenario = CELLS[cell].scenario
    expected, alerts = scenario.kind in EXPECTED, alerts_are_right(scenario)
    return (
        str(one.fleets),
        _rate(one),
        *(_part(part) if expected else "-" for part in (one.noticed, one.right_cohort)),
        _part(one.right_cell) if scenario.kind is not Kind.MIX and expected else "-",
        _part(one.right_first),
        _part(one.onset),
        "-" if one.median_delay is None else f"{one.median_delay:g}",
        f"{one.precision:.2f}" if alerts and one.precision is not None else "-",
        f"{one.f1:.2f}" if alerts else "-",
    )


def _rate(one: Score) -> str:
    low, high = one.false_bounds
    return f"{one.false_per_month:.2f} ({low:.2f} to {high:.2f})"


def _part(part: Part) -> str:
    if part.share is None:
        return "-"
    low, high = part.bounds
    return f"{part.share:.2f} ({low:.2f} to {high:.2f})"


def _lost(plan: Plan, found: Scores) -> list[str]:
    """Say where a peer has fewer false alerts, or a higher F1 where something is to be found."""
    lines = []
    for cell in plan.cells:
        ours = found.get((cell, OURS))
        if ours is None:
            continue
        changed = alerts_are_right(CELLS[cell].scenario)
        for (other, engine), peer in found.items():
            if other != cell or engine.startswith(OURS):
                continue
            if changed and peer.f1 > ours.f1:
                lines.append(f"{cell}: {engine} has F1 {peer.f1:.2f}, ours {ours.f1:.2f}")
            elif not changed and peer.false < ours.false:
                fewer = f"{peer.false_per_month:.2f} false a month, ours {ours.false_per_month:.2f}"
                lines.append(f"{cell}: {engine} has {fewer}")
    return ["Where a peer does better:", *lines] if lines else ["No peer does better in any cell."]


def _members(plan: Plan, found: Scores, named: Mapping[str, Part]) -> dict[str, Any]:
    return {
        "seed": plan.seed,
        "scores": [
            {"cell": cell, "engine": engine, **_score(one)}
            for (cell, engine), one in sorted(found.items())
        ],
        "causes": {cause: _bounded(part) for cause, part in named.items()},
        "peers_do_better": _lost(plan, found)[1:],
    }


def _score(one: Score) -> dict[str, Any]:
    low, high = one.false_bounds
    return {
        "fleets": one.fleets,
        "false_per_month": {"value": one.false_per_month, "low": low, "high": high},
        "noticed": _bounded(one.noticed),
        "right_cohort": _bounded(one.right_cohort),
        "right_cell": _bounded(one.right_cell),
        "right_first": _bounded(one.right_first),
        "onset": _bounded(one.onset),
        "median_delay_days": one.median_delay,
        "precision": one.precision,
        "f1": one.f1,
    }


def _bounded(part: Part) -> dict[str, Any]:
    low, high = part.bounds
    return {"value": part.share, "of": part.of, "low": low, "high": high}


def _words(known: Iterable[str]) -> Any:
    """Return what reads words that stand between commas."""
    allowed = list(known)

    def read(text: str) -> list[str]:
        words = text.split(",")
        if unknown := [word for word in words if word not in allowed]:
            raise argparse.ArgumentTypeError(f"no such: {', '.join(unknown)}")
        return words

    return read
