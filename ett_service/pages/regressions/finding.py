"""A finding: how large it is, how certain, what goes with it, and what people do about it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from fastapi import Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ett_service.charts.scatter import Dot, scatter
from ett_service.charts.trend import Event, Point, trend
from ett_service.charts.units import (
    cohort,
    cost,
    count,
    duration,
    factor,
    level_change,
    percent,
    subject_in_words,
    value,
)
from ett_service.core.intervals import DAY_US, rfc3339
from ett_service.pages.ask import Answer, Ask, Question
from ett_service.pages.jobs.life import axis, since_midnight, unix
from ett_service.pages.links import attempt_page, dashboard, quoted, regression_page
from ett_service.pages.panel import ARROW, FEW, Cell, Fact, Panel, table
from ett_service.pages.regressions.evidence import contributions, examples, suspects
from ett_service.pages.regressions.standing import standing
from ett_service.pages.render import HEADERS, page
from ett_service.pages.route import Asking, OwnForm, SignedIn, now_of, router
from ett_service.pages.window import moment

ROUTER = router()

_MUTE_DAYS = (1, 7, 30)
_MOST_DOTS = 500
_MOST_ROWS = 100
_DECIDED = ("real", "noise", "expected", "mix")

Project = Annotated[str, Query(max_length=200)]


@ROUTER.get("/regressions/{finding_id}")
async def show_finding(
    request: Request, finding_id: str, session: SignedIn, ask: Asking, project: Project = ""
) -> Response:
    """Show a finding."""
    question = Question(
        f"/v1/regressions/{quoted(finding_id)}", {"project": project}, is_list=False
    )
    finding = await ask(question)
    return page(
        request,
        "finding.html",
        session,
        finding=finding,
        subject=subject_in_words(finding),
        cohort=cohort(finding["cohort"]),
        sentence=_sentence(finding),
        standing=standing(finding),
        cost=cost(finding["impact"]),
        facts=_facts(finding),
        course=await _course(ask, finding, question),
        columns=(
            (*contributions(finding, question), examples(finding), _history(finding)),
            (suspects(finding), _certainty(finding)),
        ),
        question=question,
        may_decide=session.may("admin"),
        verdicts=_DECIDED,
        mute_days=_MUTE_DAYS,
        mutes=[(mute["id"], _covered(mute)) for mute in finding["mutes"]],
        acts=f"/regressions/{quoted(finding_id)}",
        grafana=dashboard(request, "ett-regressions"),
    )


def _sentence(finding: Answer) -> str:
    change = f"{level_change(finding, ARROW)} ({factor(finding['ratio'])})"
    return f"{subject_in_words(finding)} {change} in {cohort(finding['cohort'])}"


def _facts(finding: Answer) -> list[Fact]:
    before, after = finding["before"], finding["after"]
    unit = finding["unit"]
    by = f"by {moment(after['to'])}"
    bounds = finding["interval"]
    between = f"{bounds['low']:.2f} to {bounds['high']:.2f}" if bounds else "-"
    return [
        Fact("before", value(unit, before["median"]), _sample(before), is_faint=before["n"] < FEW),
        Fact(
            "after",
            value(unit, after["median"]),
            f"{_sample(after)}, {by}",
            is_faint=after["n"] < FEW,
        ),
        Fact("factor", factor(finding["ratio"]), f"interval {between}, {by}{_of_means(finding)}"),
        *_fired(finding),
        Fact("onset", moment(finding["onset_at"]), "UTC, estimated"),
        Fact("severity", finding["severity"] or "-", finding["verdict"].replace("_", " ")),
    ]


def _of_means(finding: Answer) -> str:
    ratio = finding["mean_ratio"]
    return "" if ratio is None else f"; of the means {factor(ratio)}"


def _fired(finding: Answer) -> list[Fact]:
    """Return what it was when it fired: the other numbers are of the last day."""
    fired = finding["fired"]
    if fired is None:
        return []
    level = value(finding["unit"], fired["after"]["median"])
    note = f"{moment(fired['at'])}, {factor(fired['ratio'])}, costs {cost(fired['impact'])}"
    return [Fact("when it fired", level, note)]


def _sample(side: Answer) -> str:
    faint = ": too few" if side["n"] < FEW else ""
    return f"median, n={count(side['n'])}{faint}"


async def _course(ask: Ask, finding: Answer, question: Question) -> Panel | None:
    """Draw what each attempt took, before and after; of ETT% the cohort's, day by day."""
    if finding["unit"] == "seconds":
        listed = replace(question, path=f"{question.path}/values", is_list=True)
        answer = await ask(replace(listed, query={**listed.query, "most": _MOST_DOTS}))
        if answer["values"]:
            return distribution(finding, answer, listed)
    return await _by_day(ask, finding)


def distribution(finding: Answer, answer: Answer, question: Question) -> Panel:
    """Draw a point for each attempt of the *answer*, which leads to it."""
    values, every = answer["values"], answer["every"]
    # Where the values begin: weeks without one would only push them to the right.
    origin = max(finding["before"]["from"], min(each["at"] for each in values))
    end = finding["after"]["to"]
    dots = [
        Dot(
            unix(each["at"]) - unix(origin),
            each["seconds"],
            each["side"] == "after",
            f"{each['job']}, attempt {each['number']}: {duration(each['seconds'])}",
            attempt_page(each["job"], each["number"], finding["project"]),
        )
        for each in values
    ]
    before, after = (finding[side]["median"] for side in ("before", "after"))
    searched = [finding[side]["n"] for side in ("before", "after")]
    counts = [answer[f"{side}_count"] for side in ("before", "after")]
    left_out = (f"Every {every}th is drawn, the CSV has all.",) if every > 1 else ()
    return Panel(
        "course",
        f"{subject_in_words(finding)} of each attempt, before and after",
        chart=scatter(
            "course",
            f"{subject_in_words(finding)} of attempts of {cohort(finding['cohort'])}",
            dots,
            span_s=(unix(finding["onset_at"]) - unix(origin), unix(end) - unix(origin)),
            levels=(before, after),
            shown=axis(origin, unix(end) - unix(origin)),
            since_midnight_s=since_midnight(origin),
        ),
        table=table(
            "when (UTC)|job|attempt|side|#took",
            (
                (
                    moment(each["at"]),
                    Cell(
                        each["job"],
                        href=attempt_page(each["job"], each["number"], finding["project"]),
                    ),
                    str(each["number"]),
                    each["side"],
                    duration(each["seconds"]),
                )
                for each in values[-_MOST_ROWS:]
            ),
        ),
        after=(
            f"{count(counts[0])} attempts before the onset, {count(counts[1])} after it.",
            f"The search counted {count(searched[0])} and {count(searched[1])}.",
            f"It left out maintenance and what came after {moment(finding['after']['to'])}.",
            "A point leads to its attempt. Lines are medians.",
            *left_out,
        ),
        question=question,
        is_wide=True,
    )


async def _by_day(ask: Ask, finding: Answer) -> Panel | None:
    """Draw the median of the phase, or ETT%, of the cohort day by day."""
    link = finding["links"].get("fleet")
    if not link:
        return None
    address = urlsplit(link)
    question = Question(address.path, parse_qs(address.query))
    steps = (await ask(question))["points"]
    read, shown, name = _measure(finding)
    drawn = [Point(_day(step["start"]), read(step)) for step in steps]
    if len(steps) < 2 or all(point.value is None for point in drawn):  # noqa: PLR2004
        return None
    place = _place(finding["onset_at"], steps)
    events = [Event(place, "onset")] if 0 <= place <= len(steps) - 1 else []
    return Panel(
        "course",
        f"{name}, day by day",
        chart=trend(
            "course", f"{name} of {cohort(finding['cohort'])}", drawn, events=events, shown=shown
        ),
        table=table(
            f"day|#{name}|#jobs",
            (
                (point.name, shown(point.value), count(step["jobs"]))
                for point, step in zip(drawn, steps, strict=True)
            ),
        ),
        question=question,
        is_wide=True,
    )


def _measure(
    finding: Answer,
) -> tuple[Callable[[Answer], float | None], Callable[[float | None], str], str]:
    phase = finding["phase"]
    if finding["metric"] == "phase_seconds" and phase:
        return (
            lambda step: ((step["phases"] or {}).get(phase) or {}).get("p50"),
            duration,
            f"Median of {phase}",
        )
    return (lambda step: step["ett_ratio"] if step["weighted_seconds"] else None), percent, "ETT%"


def _day(instant: str) -> str:
    at = datetime.fromisoformat(instant)
    return f"{at:%b} {at.day}"


def _place(instant: str, steps: list[Answer]) -> float:
    first, second = (datetime.fromisoformat(steps[0][end]) for end in ("start", "end"))
    return (datetime.fromisoformat(instant) - first) / (second - first)


def _certainty(finding: Answer) -> Panel:
    rows = [
        (
            Cell(GATES.get(gate["name"], gate["name"]), title=gate["name"]),
            f"{gate['value']:,.4g}",
            f"{gate['limit']:,.4g}",
            "yes" if gate["passed"] else "no",
            moment(gate["as_of"]),
        )
        for gate in finding["gates"]
        if gate["value"] is not None
    ]
    power = finding["power"]
    smallest = power and power["smallest"]
    by = moment(finding["after"]["to"])
    tested = f"p {_tiny(finding['p'])}, q {_tiny(finding['q'])} after the correction for many tests"
    before = [f"{tested}, by {by} (UTC). The table also has what was asked when it fired."]
    if smallest:
        before.append(f"The smallest change that the search can find here is {factor(smallest)}.")
    return Panel(
        "certainty",
        "How certain it is",
        before=before,
        table=table("what was asked|#value|#limit|passed|by (UTC)", rows),
    )


GATES: Mapping[str, str] = {
    "recent_values": "values after the onset, at least",
    "baseline_values": "values before it, at least",
    "recent_days": "days after the onset that show it, at least",
    "p": "chance that nothing changed and it looks so (p), at most",
    "q": "the same, corrected for all that was searched (q), at most",
    "effect": "factor of the change, at least",
    "impact": "share of the cohort's time that it costs, at least",
    "mix_part": "share of the change that is mix, at least",
    "without_any_day": "score without the day that speaks most for it, at least",
    "still_there": "score of a fall back in the newest days, under",
    "latest_effect": "factor in the newest days, at least",
}
"""The gates of the search, in words."""


def _tiny(number: float | None) -> str:
    return "-" if number is None else f"{number:.2g}"


def _history(finding: Answer) -> Panel:
    rows = [
        (change["at"], change["what"].replace("_", " "), change["by_name"] or change["by"], change)
        for change in finding["history"]
    ]
    rows += [
        (
            mute["made_at"],
            f"muted {_covered(mute)} until {moment(mute['until'])}",
            mute["made_by_name"] or mute["made_by"],
            mute,
        )
        for mute in finding["mutes"]
    ]
    return Panel(
        "history",
        "Who did what",
        table=table(
            "when (UTC)|what|by|why",
            (
                (moment(at), what, by, source["why"] or "-")
                for at, what, by, source in sorted(rows, key=lambda row: row[0])
            ),
        ),
        after=("Mutes are those in force.",) if finding["mutes"] else (),
    )


def _covered(mute: Answer) -> str:
    """Name what a mute covers, which may be more than one finding."""
    return " ".join(filter(None, (cohort(mute["cohort"]), mute["phase"])))


@ROUTER.post("/regressions/{finding_id}/unmute")
async def unmute(finding_id: str, ask: Asking, form: OwnForm) -> Response:
    """End a mute that covers a finding."""
    project = form.get("project", "")
    path = f"/v1/regressions/mutes/{quoted(form.get('mute', ''))}"
    await ask.write("DELETE", Question(path, {"project": project}))
    return _back_to(finding_id, project)


@ROUTER.post("/regressions/{finding_id}/{act}")
async def decide(
    request: Request,
    finding_id: str,
    act: Literal["triage", "acknowledge", "accept", "mute"],
    ask: Asking,
    form: OwnForm,
) -> Response:
    """Do something about a finding, as the API does it."""
    project = form.get("project", "")
    question = Question(f"/v1/regressions/{quoted(finding_id)}/{act}", {"project": project})
    await ask.write("POST", question, _body(act, form, now_of(request)))
    return _back_to(finding_id, project)


def _back_to(finding_id: str, project: str) -> Response:
    return RedirectResponse(regression_page(finding_id, project), 303, HEADERS)


def _body(act: str, form: Mapping[str, str], now_us: int) -> dict[str, Any]:
    why = form.get("why", "").strip()
    body: dict[str, Any] = {"why": why} if why or act != "acknowledge" else {}
    if act == "triage":
        body["verdict"] = form.get("verdict", "")
        if onset := form.get("onset"):
            body["onset"] = f"{onset}T00:00:00Z"
    if act == "mute":
        days = int(form.get("days", "")) if form.get("days", "").isdecimal() else 0
        body["until"] = rfc3339(now_us + days * DAY_US)
    return body
