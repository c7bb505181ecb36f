"""``ett regressions explain``: a finding, and the numbers behind its verdict, on one screen."""

from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any

from ett_service.charts.units import (
    cohort,
    cost,
    count,
    duration,
    factor,
    level_change,
    percent,
    points,
    subject,
    value,
)
from ett_service.cli.arguments import ID, named, project, server
from ett_service.cli.output import NONE, author, minute, write_line, write_prose
from ett_service.cli.remote import ask, of_project, place
from ett_service.cli.tables import Answer, number, prose, spare, text, write_table
from ett_service.cli.verb import Verb

_MOST_SHARES = 5
_ENDINGS = {
    "better": "the change is over",
    "accepted": "its level was accepted",
    "merged": "another finding reports the same change",
    "gone": "nothing of its cohort runs any more",
}


def _four_digits(figure: float | None) -> str:
    return NONE if figure is None else f"{figure:.4g}"


def _progress(clock: Answer) -> str:
    return ", ".join(
        word for word, holds in (("so far", clock["runs"]), ("late", clock["breached"])) if holds
    )


_GATES = (
    text("condition", "name"),
    number("is", "value", _four_digits),
    number("limit", "limit", _four_digits),
    text("passed", "passed", lambda passed: "yes" if passed else "no"),
    spare(text("by (UTC)", "as_of", minute)),
)
_SUSPECTS = (
    text("associated with", lambda suspect: f"{suspect['dimension']}:{suspect['value']}"),
    number("explains", "explains", percent),
    number("attempts", "attempts", count),
    text("first seen (UTC)", "first_seen_at", minute),
)
_MARKERS = (text("marker near the onset", "title"), text("kind"), text("at (UTC)", "at", minute))
_CLOCKS = (
    text("time", "name"),
    number("took", "seconds", duration),
    number("objective", "limit_seconds", duration),
    text("", _progress),
)
_NOT_DETECTED = (
    "to detect: it does not count. The change began before this project was first searched."
)
_HISTORY = (
    text("at (UTC)", "at", minute),
    text("what"),
    text("by", partial(author, member="by")),
    prose("why"),
)


_FACTOR_NOTE = (
    "The factor is estimated from all values of both sides, and the medians are one value of each: "
    "near 1 they may move in opposite directions. The interval of the factor decides."
)

_ANEW = "the next search looks again."


def _differ(finding: Answer) -> bool:
    """Return whether the factor and the medians point to different sides."""
    before, after = finding["before"]["median"], finding["after"]["median"]
    if finding["ratio"] is None or before is None or after is None:
        return False
    return bool((after - before) * (finding["ratio"] - 1) < 0)


def _explain(args: Namespace) -> Any:
    return ask(args, place("/v1/regressions/{}", args.id), of_project(args))


def _write(finding: Answer, _args: Namespace) -> None:
    ratio = factor(finding["ratio"])
    if finding["mean_ratio"] is not None:
        ratio += f"; the mean {factor(finding['mean_ratio'])}"
    write_prose(
        f"{subject(finding)} in {cohort(finding['cohort'])}: {level_change(finding)} ({ratio})"
    )
    write_prose(f"{finding['verdict']}, {_state(finding)}, severity {finding['severity']}")
    write_prose(f"costs {cost(finding['impact'])}, by {minute(finding['after']['to'])} (UTC)")
    _write_fired(finding)
    write_line()
    _write_sides(finding)
    if _differ(finding):
        write_prose(_FACTOR_NOTE)
        write_line()
    write_table(_GATES, finding["gates"])
    _write_power(finding["power"])
    attribution = finding["attribution"]
    if by := attribution["as_of"]:
        write_prose(f"associations, by {minute(by)} (UTC)")
    if (onset := attribution["onset_at"]) and onset != finding["onset_at"]:
        write_prose(f"They are of the onset before it was moved, {minute(onset)} (UTC): {_ANEW}")
    _write_attribution(finding["attribution"])
    if finding["sla"] is not None:
        clocks = {name: clock for name, clock in finding["sla"].items() if clock is not None}
        write_table(_CLOCKS, [{"name": f"to {name}", **clock} for name, clock in clocks.items()])
        if finding["sla"]["detect"] is None:
            write_prose(_NOT_DETECTED)
        write_line()
    write_table(_HISTORY, finding["history"])
    for mute in finding["mutes"]:
        until = f"{mute['id']} until {minute(mute['until'])}: {mute['why']}"
        write_prose(f"muted by {author(mute, 'made_by')}, {until}")


def _state(finding: Answer) -> str:
    parts = [f"{finding['state']}, since about {minute(finding['onset_at'])} (UTC)"]
    if finding["reopened"]:
        parts.append(f"reopened {count(finding['reopened'])} times")
    if finding["acknowledged_at"]:
        parts.append(f"acknowledged by {author(finding, 'acknowledged_by')}")
    if finding["ended"]:
        parts.append(_ending(finding))
    if finding["triage"]:
        parts.append(f"triaged as {finding['triage']} by {author(finding, 'triage_by')}")
    if finding["muted_until"]:
        parts.append(f"muted until {minute(finding['muted_until'])}")
    return ", ".join(parts)


def _ending(finding: Answer) -> str:
    if finding["merged_into"]:
        return f"{finding['merged_into']} reports the same change"
    return _ENDINGS[finding["ended"]]


def _write_fired(finding: Answer) -> None:
    """Write what it was when it fired: the other numbers are of the last run that found it."""
    if (fired := finding["fired"]) is not None:
        level = f"{factor(fired['ratio'])}, n={count(fired['after']['n'])}"
        when = f"{_when_fired(finding)}, {minute(fired['at'])} (UTC)"
        write_prose(f"{when}: {level}, costs {cost(fired['impact'])}")


def _when_fired(finding: Answer) -> str:
    """Name the cohort in which it fired, too, if somebody moved it since."""
    in_cohort = finding["fired"]["cohort"]
    is_moved = in_cohort != finding["cohort"]
    return f"when it fired in {cohort(in_cohort)}" if is_moved else "when it fired"


def _write_sides(finding: Answer) -> None:
    show = partial(value, finding["unit"])
    columns = (
        text("", "name"),
        number("n", "n", count),
        number("days", "days", count),
        number("median", "median", show),
        number("p90", "p90", show),
        text("from (UTC)", "from", minute),
        text("to (UTC)", "to", minute),
    )
    rows = [{"name": side, **finding[side]} for side in ("before", "after")]
    if fired := finding["fired"]:
        rows.append({"name": _when_fired(finding), **fired["after"]})
    write_table(columns, rows)
    bounds = finding["interval"]
    interval = "unknown" if bounds is None else f"x {bounds['low']:.2f} to x {bounds['high']:.2f}"
    p, q = finding["p"], finding["q"]
    write_prose(f"95% interval {interval}; p {p:.2g}, q {q:.2g} among all series")
    write_line()


def _write_power(power: Answer | None) -> None:
    if power is None:
        write_prose("The last search did not cover this series.")
    else:
        sizes = f"{count(power['recent'])} recent and {count(power['baseline'])} earlier values"
        smallest = power["smallest"]
        least = "no change" if smallest is None else f"a change {factor(smallest)}"
        write_prose(f"The last search could detect {least} here, with {sizes}.")
    write_line()


def _write_attribution(attribution: Answer) -> None:
    for name in ("phase", "cohort"):
        if shares := attribution[f"{name}_shares"]:
            write_prose(f"by {name}: {_shares(shares)}")
    within, mix = attribution["within_points"], attribution["mix_points"]
    if within is not None and mix is not None:
        write_prose(
            f"ETT% of it changed, for whatever cause, by {points(within / 100)} within cohorts "
            f"and {points(mix / 100)} by job mix"
        )
    if attribution["suspects"]:
        write_table(_SUSPECTS, attribution["suspects"])
    else:
        write_prose("associated with: no value of a dimension explains half of it")
    if pair := attribution["side_by_side"]:
        write_prose(
            f"side by side after the onset: {pair['dimension']}:{pair['value']} "
            f"({count(pair['attempts'])}) against {pair['against'] or 'all others'} "
            f"({count(pair['against_attempts'])}): {factor(pair['ratio'])}, p {pair['p']:.2g}"
        )
    if attribution["markers"]:
        write_table(_MARKERS, attribution["markers"])
    if examples := attribution["examples"]:
        attempts = ", ".join(f"{example['job']} ({example['number']})" for example in examples)
        write_prose(f"example attempts: {attempts}")
    write_line()


def _shares(shares: Mapping[str, float]) -> str:
    largest = sorted(shares.items(), key=lambda item: -abs(item[1]))
    shown = ", ".join(f"{name} {percent(share)}" for name, share in largest[:_MOST_SHARES])
    rest = len(largest) - _MOST_SHARES
    return f"{shown}, and {count(rest)} more" if rest > 0 else shown


ACT = Verb(
    summary="show all about a finding, and the numbers behind its verdict",
    options=(named("id", ID), project, server),
    run=_explain,
    write=_write,
)
