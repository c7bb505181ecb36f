"""The tables of ``ett bench``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ett_service.cli.output import write_line
from ett_service.cli.tables import write_cells
from ett_service.trials.bench import CELLS, Plan
from ett_service.trials.engines import OURS, PEERS
from ett_service.trials.labelled import Result
from ett_service.trials.scenario import Kind
from ett_service.trials.scoring import EXPECTED, Part, Score, alerts_are_right

Scores = Mapping[tuple[str, str], Score]
"""By the names of a cell and of an engine."""

COLUMNS = (
    "cell", "engine", "fleets", "false/month", "noticed", "right cohort", "right cell", "first",
    "onset", "days", "precision", "F1",
)  # fmt: skip


def write_scores(plan: Plan, found: Scores, named: Mapping[str, Part]) -> None:
    places = [
        (cell, engine.name)
        for cell in plan.cells
        for engine in plan.engines
        if (cell, engine.name) in found
    ]
    rows = [(*place, *_shown(place[0], found[place])) for place in places]
    write_cells(COLUMNS, rows, right=COLUMNS[2:])
    if named:
        write_line()
        write_cells(
            ("goes with", "named first"),
            [(cause, _part(part)) for cause, part in named.items()],
            right=("named first",),
        )
    write_line()
    for line in _better(plan, found) or ["No peer does better in any cell."]:
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


def _better(plan: Plan, found: Scores) -> list[str]:
    """Say where a peer has fewer false alerts or, where people are to be told, a higher F1."""
    return [
        f"{cell}: {engine} does better, {difference}"
        for (cell, engine), peer in found.items()
        if engine.partition("/")[0] in PEERS and (cell, OURS) in found and cell in plan.cells
        for difference in _differences(cell, peer, found[cell, OURS])
    ]


def _differences(cell: str, peer: Score, ours: Score) -> Iterator[str]:
    if alerts_are_right(CELLS[cell].scenario):
        if peer.f1 > ours.f1:
            yield f"F1 {peer.f1:.2f} against {ours.f1:.2f}"
    elif peer.false < ours.false:
        yield f"{peer.false_per_month:.2f} false a month against {ours.false_per_month:.2f}"


def members(plan: Plan, found: Scores, named: Mapping[str, Part]) -> dict[str, Any]:
    return {
        "seed": plan.seed,
        "scores": [
            {"cell": cell, "engine": engine, **_score(one)}
            for (cell, engine), one in sorted(found.items())
        ],
        "causes": {cause: _bounded(part) for cause, part in named.items()},
        "peers_do_better": _better(plan, found),
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


def write_results(results: Sequence[Result]) -> None:
    """Print F1 by series and finder."""
    names = [one.finder for one in results]
    write_cells(
        ("series", *names),
        [
            (series, *(f"{one.by_series[series]:.2f}" for one in results))
            for series in results[0].by_series
        ],
        right=names,
        last=("mean", *(f"{one.mean:.3f}" for one in results)),
    )
