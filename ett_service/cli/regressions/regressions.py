"""``ett regressions``: what changed for the worse, why, and what is done about it."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any

from ett_service.charts.units import (
    amount,
    cohort,
    cost,
    count,
    duration,
    factor,
    level_change,
    money,
    subject,
)
from ett_service.cli.arguments import INSTANT, project, server, when, whole
from ett_service.cli.output import minute, or_dash, write_line, write_prose
from ett_service.cli.regressions import compare, explain, triage
from ett_service.cli.remote import ask, listed, of_project, pages
from ett_service.cli.tables import (
    Answer,
    identifier,
    number,
    outcome,
    spare,
    styled,
    text,
    write_rows,
    write_table,
)
from ett_service.cli.verb import Exit, Verb, act
from ett_service.core.regressions.finding import Metric, State, Triage, Verdict

_PATH = "/v1/regressions"
_POWER = f"{_PATH}/power"
_SHARED = (project, server)
_CAUSES = f"{_PATH}/causes"
_FILTERS = (
    "state", "verdict", "metric", "phase", "where", "from", "to", "project", "sort", "merged",
)  # fmt: skip
_EMPTY = (
    "No findings. `ett regressions power` shows how small a change the last search could detect, "
    "and when that was."
)


_SHOWN_ENDINGS = ("merged", "gone", "accepted")


def _state(finding: Answer) -> str:
    words = [finding["state"]]
    if finding["muted_until"]:
        words.append("(muted)")
    if finding["ended"] in _SHOWN_ENDINGS:
        words.append(f"({finding['ended']})")
    return " ".join(words)


_FINDINGS = (
    identifier("id"),
    styled(text("state", _state), outcome),
    text("what", subject),
    text("cohort", "cohort", cohort),
    text("before -> after", level_change),
    styled(text("severity"), outcome),
    spare(number("ratio", "ratio", factor)),
    spare(number("GPU-h a week", "impact.gpu_hours_per_week", amount)),
    spare(text("since (UTC)", "onset_at", minute)),
    spare(styled(text("verdict"), outcome)),
    spare(text("triage", "triage", or_dash)),
)


def _smallest(row: Answer) -> str:
    return "none" if row["smallest"] is None else factor(row["smallest"])


_SERIES = (
    text("cohort", "cohort", cohort),
    text("what", subject),
    number("recent", "recent", count),
    number("before", "baseline", count),
    number("smallest", _smallest),
)


def _of_cause(row: Answer) -> str:
    return "(unknown)" if row["dimension"] is None else f"{row['dimension']}:{row['value']}"


def _first(texts: list[Any], name: Callable[[Any], str]) -> str:
    more = f" and {count(len(texts) - 1)} more" if len(texts) > 1 else ""
    return f"{name(texts[0])}{more}"


def _price(costs: Answer) -> str:
    return money(costs["cost_per_week"], costs["currency"] or "")


_BY_CAUSE = (
    text("cause", _of_cause),
    text("what", subject),
    text("cohorts", "cohorts", partial(_first, name=cohort)),
    text("since (UTC)", "onset_at", minute),
    number("GPU-h a week", "cost.gpu_hours_per_week", amount),
    spare(number("cost a week", "cost", _price)),
    identifier("findings", "findings", partial(_first, name=str)),
)


def _values(words: type[StrEnum]) -> list[str]:
    return [word.value for word in words]


def _list_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--state", action="append", choices=_values(State), help="default: all but inactive"
    )
    parser.add_argument("--verdict", action="append", choices=_values(Verdict))
    parser.add_argument("--metric", choices=_values(Metric))
    parser.add_argument("--phase", help="only of this phase")
    parser.add_argument(
        "--where",
        action="append",
        metavar="DIMENSION:VALUE",
        help="only of cohorts with this value, such as model:llm-70b",
    )
    when(parser, "--from", "from", f"only those not resolved before: {INSTANT}")
    when(parser, "--to", "to", "only those with an onset before")
    parser.add_argument(
        "--sort", help="member to sort by; `-` in front: largest first (default -pending_at)"
    )
    parser.add_argument(
        "--merged",
        action="store_true",
        default=None,
        help="also those that another finding reports by now",
    )
    parser.add_argument("--limit", type=whole, default=50, metavar="N", help="default 50")
    parser.add_argument(
        "--fail-on",
        choices=("pending", "firing"),
        help="exit 3 if a regression that is neither muted nor noise is firing "
        "(pending: or pending)",
    )


def _list(args: Namespace) -> list[Any]:
    return listed(args, _PATH, "regressions", _query(args), args.limit)


def _query(args: Namespace) -> Mapping[str, Any]:
    return {name: getattr(args, name) for name in _FILTERS}


def _write_list(findings: list[Any], args: Namespace) -> None:
    write_rows(_FINDINGS, findings, _EMPTY)
    if args.verdict is None:
        small = ask(args, _PATH, {**_query(args), "limit": 1})["small"]
        if small:
            write_prose(f"{count(small)} more cost less than the floor: `--verdict small`.")


def _causes_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--state", action="append", choices=_values(State), help="default: what fires"
    )
    parser.add_argument("--where", action="append", metavar="DIMENSION:VALUE")


def _causes(args: Namespace) -> Any:
    return ask(args, _CAUSES, of_project(args, state=args.state, where=args.where))


def _write_causes(answer: Answer, _args: Namespace) -> None:
    write_rows(_BY_CAUSE, answer["causes"], "No regressions.")
    if answer["causes"]:
        write_prose(f"All together cost {cost({**answer['total'], 'ett_points': None})}.")
    if answer["small"]:
        hours = amount(answer["small_cost"]["gpu_hours_per_week"])
        write_prose(
            f"{count(answer['small'])} small ones, each under the floor of costs, are not in it: "
            f"{hours} GPU-hours a week."
        )


def _gate(_findings: Any, args: Namespace) -> Exit:
    """Fail if any finding that matches, shown or not, is in a state that must not be."""
    if args.fail_on is None:
        return Exit.DONE
    states = ["firing"] if args.fail_on == "firing" else ["pending", "firing"]
    query = {**_query(args), "state": states, "verdict": ["regression"]}
    regressions = listed(args, _PATH, "regressions", query)
    failing = sum(
        regression["muted_until"] is None and regression["triage"] != Triage.NOISE
        for regression in regressions
    )
    if not failing:
        return Exit.DONE
    sys.stderr.write(f"Regressions {' or '.join(states)}, neither muted nor noise: {failing}.\n")
    return Exit.GATE


def _power_options(parser: ArgumentParser) -> None:
    parser.add_argument("--where", action="append", metavar="DIMENSION:VALUE")
    parser.add_argument("--metric", help="only of this metric")
    parser.add_argument("--phase", help="only of this phase")


def _power(args: Namespace) -> Any:
    query = of_project(args, where=args.where, metric=args.metric, phase=args.phase)
    answers = list(pages(args, _POWER, "power", query))
    return {
        "runs": answers[0]["runs"],
        "power": [series for answer in answers for series in answer["power"]],
    }


def _write_power(answer: Answer, _args: Namespace) -> None:
    if not answer["runs"]:
        write_prose("No search has run yet. `ett detect` runs one now, and stores nothing.")
        return
    for run in answer["runs"]:
        write_prose(
            f"{run['project']}: searched up to {minute(run['at'])} (UTC), "
            f"{count(run['series'])} series in {duration(run['took_seconds'])}"
        )
    write_line()
    rows = sorted(answer["power"], key=_by_power)
    write_table(_SERIES, rows)
    blind = sum(row["smallest"] is None for row in rows)
    if blind:
        write_prose(f"In {count(blind)} of {count(len(rows))} series no change can be detected.")


def _by_power(row: Answer) -> tuple[bool, float]:
    smallest = row["smallest"]
    return smallest is None, 0.0 if smallest is None else abs(smallest - 1)


VERB = Verb(
    epilog="Examples: `ett regressions list --state firing`, `ett regressions explain ID`.",
    acts={
        "list": act(
            "list findings, latest first",
            _list,
            _write_list,
            _list_options,
            *_SHARED,
            exit_code=_gate,
        ),
        "causes": act(
            "list what fires by its cause, with one total cost for each",
            _causes,
            _write_causes,
            _causes_options,
            *_SHARED,
        ),
        "explain": explain.ACT,
        "compare": compare.ACT,
        "power": act(
            "show how small a change the last search could detect",
            _power,
            _write_power,
            _power_options,
            *_SHARED,
        ),
        **triage.ACTS,
    },
)
