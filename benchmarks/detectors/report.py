"""The tables and the JSON of the comparison."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.detectors.bounds import goal
from benchmarks.detectors.causes import CauseScore
from benchmarks.detectors.engines import OURS, PEERS
from benchmarks.detectors.fleets.scenario import Scenario, ScenarioKind
from benchmarks.detectors.labelled import FinderScores
from benchmarks.detectors.one_search import CellSearches
from benchmarks.detectors.runner import CELLS, BenchPlan
from benchmarks.detectors.scoring import EXPECTED, CellScore, Proportion, alerts_are_right
from ett_service.cli.output import write_line
from ett_service.cli.tables import write_cells

Scores = Mapping[tuple[str, str], CellScore]
"""By the names of a cell and of an engine."""

COLUMNS = (
    "cell", "engine", "fleets", "false/month", "noticed", "right cohort", "right cell", "bound",
    "searched", "goal", "first", "onset", "days", "precision", "F1",
)  # fmt: skip

CAUSE_COLUMNS = ("goes with", "named at the alert", "named in time")


def write_scores(plan: BenchPlan, scores: Scores, causes: Mapping[str, CauseScore]) -> None:
    """Print one table of all scores, the named causes, and where peers do better."""
    names = [
        (cell, engine.name)
        for cell in plan.cells
        for engine in plan.engines
        if (cell, engine.name) in scores
    ]
    rows = [(cell, engine, *_row(cell, scores[cell, engine])) for cell, engine in names]
    write_cells(COLUMNS, rows, right=COLUMNS[2:])
    if causes:
        write_line()
        write_cells(
            CAUSE_COLUMNS,
            [(cause, *map(_with_bounds, score)) for cause, score in causes.items()],
            right=CAUSE_COLUMNS[1:],
        )
    write_line()
    for line in _better_peers(plan, scores) or ["No peer does better in any cell."]:
        write_line(line)
    last = max(plan.seeds(cell)[-1] for cell in plan.cells)
    write_line(f"Seeds {plan.seed} to {last}. Intervals are Wilson's, at 95 %.")


def write_one_search(searches: Sequence[CellSearches]) -> None:
    """Print a table of what single searches found."""
    columns = ("cell", "fleets", "false/search", "right cell", "bound", "searched")
    rows = [
        (
            each.cell,
            str(each.fleets),
            f"{each.false_per_search:.3f}",
            "-" if each.right_cell is None else _with_bounds(each.right_cell),
            *(("-", "-") if each.bound is None else (f"{chance:.2f}" for chance in each.bound)),
        )
        for each in searches
    ]
    write_cells(columns, rows, right=columns[1:])


def _row(cell: str, score: CellScore) -> tuple[str, ...]:
    scenario = CELLS[cell].scenario
    expected, alerts = scenario.kind in EXPECTED, alerts_are_right(scenario)
    has_target = expected and scenario.kind is not ScenarioKind.MIX
    return (
        str(score.fleets),
        _false_per_month(score),
        _with_bounds(score.noticed) if expected else "-",
        _with_bounds(score.right_cohort) if expected else "-",
        _with_bounds(score.right_cell) if has_target else "-",
        *_bounds_and_goal(scenario, score),
        _with_bounds(score.right_first),
        _with_bounds(score.onset),
        "-" if score.median_delay is None else f"{score.median_delay:g}",
        f"{score.precision:.2f}" if alerts and score.precision is not None else "-",
        f"{score.f1:.2f}" if alerts else "-",
    )


def _bounds_and_goal(scenario: Scenario, score: CellScore) -> tuple[str, str, str]:
    if score.bound is None:
        return "-", "-", "-"
    wanted = goal(scenario, score.bound)
    goal_text = "-" if wanted is None else f"{wanted:.2f}"
    return f"{score.bound:.2f}", f"{score.searched:.2f}", goal_text


def _false_per_month(score: CellScore) -> str:
    low, high = score.false_bounds
    return f"{score.false_per_month:.2f} ({low:.2f} to {high:.2f})"


def _with_bounds(proportion: Proportion) -> str:
    if proportion.share is None:
        return "-"
    low, high = proportion.bounds
    return f"{proportion.share:.2f} ({low:.2f} to {high:.2f})"


def _better_peers(plan: BenchPlan, scores: Scores) -> list[str]:
    """Say where a peer has fewer false alerts or, where people should be alerted, a higher F1."""
    return [
        f"{cell}: {engine} does better, {difference}"
        for (cell, engine), peer in scores.items()
        if engine.partition("/")[0] in PEERS and (cell, OURS) in scores and cell in plan.cells
        for difference in _differences(cell, peer, scores[cell, OURS])
    ]


def _differences(cell: str, peer: CellScore, ours: CellScore) -> Iterator[str]:
    if alerts_are_right(CELLS[cell].scenario):
        if peer.f1 > ours.f1:
            yield f"F1 {peer.f1:.2f} against {ours.f1:.2f}"
    elif peer.false < ours.false:
        yield f"{peer.false_per_month:.2f} false a month against {ours.false_per_month:.2f}"


def scores_json(
    plan: BenchPlan, scores: Scores, causes: Mapping[str, CauseScore]
) -> dict[str, Any]:
    """Return the same as :func:`write_scores` prints, for JSON."""
    return {
        "seed": plan.seed,
        "scores": [
            {"cell": cell, "engine": engine, **_score_json(score)}
            for (cell, engine), score in sorted(scores.items())
        ],
        "causes": {
            cause: {"at_alert": _proportion_json(at_alert), "in_time": _proportion_json(in_time)}
            for cause, (at_alert, in_time) in causes.items()
        },
        "peers_do_better": _better_peers(plan, scores),
    }


def _score_json(score: CellScore) -> dict[str, Any]:
    low, high = score.false_bounds
    return {
        "fleets": score.fleets,
        "false_per_month": {"value": score.false_per_month, "low": low, "high": high},
        "noticed": _proportion_json(score.noticed),
        "right_cohort": _proportion_json(score.right_cohort),
        "right_cell": _proportion_json(score.right_cell),
        "bound": score.bound,
        "searched": score.searched,
        "right_first": _proportion_json(score.right_first),
        "onset": _proportion_json(score.onset),
        "median_delay_days": score.median_delay,
        "precision": score.precision,
        "f1": score.f1,
    }


def _proportion_json(proportion: Proportion) -> dict[str, Any]:
    low, high = proportion.bounds
    return {"value": proportion.share, "of": proportion.of, "low": low, "high": high}


def write_labelled(scores: Sequence[FinderScores]) -> None:
    """Print F1 by series and finder."""
    names = [of_finder.finder for of_finder in scores]
    write_cells(
        ("series", *names),
        [
            (series, *(f"{of_finder.by_series[series]:.2f}" for of_finder in scores))
            for series in scores[0].by_series
        ],
        right=names,
        last=("mean", *(f"{of_finder.mean:.3f}" for of_finder in scores)),
    )


def labelled_json(scores: Sequence[FinderScores]) -> dict[str, Any]:
    """Return the same as :func:`write_labelled` prints, for JSON."""
    return {
        of_finder.finder: {"mean": of_finder.mean, **of_finder.by_series} for of_finder in scores
    }
