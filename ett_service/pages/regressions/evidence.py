"""What is behind a finding: where it comes from, what goes with it, which attempts show it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ett_service.charts import units
from ett_service.charts.bridge import SHARE, Step, bridge
from ett_service.charts.units import count, percent, points
from ett_service.core.dimensions import DIMENSIONS, GROUPS
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import attempt_page, losing_jobs
from ett_service.pages.panel import Cell, Panel, table
from ett_service.pages.terms import CATEGORIES
from ett_service.pages.window import moment

_MOST_STEPS = 8
_STAR = "* "  #: before a cohort of the finding, beside others
_WIDER = (
    "Shares of the change of the mean over all cohorts of the project at that time; a star marks "
    "those of this finding, which need not have most of it."
)


def contributions(finding: Answer, question: Question) -> list[Panel]:
    """Draw what each phase of a start, and each cohort, adds to the change."""
    attribution = finding["attribution"]
    within, mix = attribution["within_points"], attribution["mix_points"]
    note = (
        f"ETT% of it changed, for whatever cause, by {points(within / 100)} within cohorts "
        f"and {points(mix / 100)} by mix."
        if within is not None and mix is not None
        else ""
    )
    return [
        _shares(by, finding, question, note)
        for by in ("phase", "cohort")
        if attribution[f"{by}_shares"]
    ]


def _shares(by: str, finding: Answer, question: Question, note: str) -> Panel:
    shares: Mapping[str, float] = finding["attribution"][f"{by}_shares"]
    ranked = sorted(shares.items(), key=lambda share: -abs(share[1]))
    left = ranked[_MOST_STEPS:]
    leads = {name: _LEADS[by](finding, name) for name in shares}
    own = {name for name in shares if by != "cohort" or _is_own(finding, name)}
    is_wider = len(own) < len(shares)
    names = {name: _STAR * (is_wider and name in own) + _named(by, name) for name in shares}
    steps = [Step(names[name], share, leads[name]) for name, share in ranked[:_MOST_STEPS]]
    is_better = finding["verdict"] == "improvement"
    if left:
        steps.append(Step(f"{count(len(left))} others", sum(share for _, share in left)))
    return Panel(
        f"by-{by}",
        "The change over all cohorts" if is_wider else f"Where it comes from, by {by}",
        chart=bridge(
            f"by-{by}",
            f"The change, {by} by {by}",
            ("before", 0.0),
            steps,
            ("in all", sum(shares.values())),
            unit=replace(SHARE, more_is_better=is_better),
        ),
        table=table(
            f"{by}|#share of the change",
            [(Cell(names[name], href=leads[name]), percent(part)) for name, part in ranked],
        ),
        after=tuple(text for text in (_WIDER * is_wider, note) if text),
        question=question.of(f"attribution.{by}_shares"),
    )


def _phase_lead(finding: Answer, phase: str) -> str:
    """Return where the jobs of the cohort stand that have most of a phase since the onset."""
    if phase not in CATEGORIES:
        return ""
    return _jobs_since(finding, finding["cohort"].items(), phase)


def _cohort_lead(finding: Answer, cohort: str) -> str:
    """Return where the jobs of a cohort stand that lost most since the onset."""
    labels = _labels(cohort)
    return _jobs_since(finding, labels.items()) if labels else ""


def _named(by: str, name: str) -> str:
    """Name a cohort as everywhere; a phase, and a cohort that cannot be read, by its own name."""
    labels = _labels(name) if by == "cohort" else {}
    return units.cohort(labels) if labels else name


def _labels(cohort: str) -> dict[str, str]:
    """Read ``cluster=eu-1,model=llm-70b``; nothing where a part is no dimension."""
    labels = dict(part.partition("=")[::2] for part in cohort.split(","))
    return labels if all(name in GROUPS for name in labels) else {}


def _is_own(finding: Answer, cohort: str) -> bool:
    """Tell whether a cohort is part of that of the finding."""
    labels = _labels(cohort)
    return all(labels.get(name) == value for name, value in finding["cohort"].items())


def _jobs_since(
    finding: Answer, cohort: Iterable[tuple[str, str]], category: str | None = None
) -> str:
    where = [f"{name}:{value}" for name, value in cohort]
    after = finding["after"]
    return losing_jobs(where, finding["project"], (after["from"], after["to"]), category)


_LEADS: Mapping[str, Callable[[Answer, str], str]] = {
    "phase": _phase_lead,
    "cohort": _cohort_lead,
}


def suspects(finding: Answer) -> Panel:
    """List what began near the onset, with how much it explains."""
    attribution = finding["attribution"]
    rows: list[tuple[Cell | str, ...]] = [
        (
            Cell(f"{suspect['dimension']} {suspect['value']}", href=_beside(finding, suspect)),
            f"explains {percent(suspect['explains'])}",
            f"{count(suspect['attempts'])} attempts",
            moment(suspect["first_seen_at"]),
        )
        for suspect in attribution["suspects"]
    ]
    rows += [
        (
            f"{marker['kind']}: {marker['title']}",
            f"score {marker['score']:.2f} of 1",
            "marker",
            moment(marker["at"]),
        )
        for marker in attribution["markers"]
    ]
    return Panel(
        "suspects",
        "Suspects",
        before=() if rows else ("Nothing changed near the onset that was recorded.",),
        table=table("what|evidence|seen in|since (UTC)", rows),
        after=(
            "What goes with a change need not be its cause.",
            "A suspect leads to its attempts beside the others of the cohort.",
            *_as_of(finding),
        ),
    )


def _beside(finding: Answer, suspect: Answer) -> str:
    """Return the address that compares what has the suspect with the rest of the cohort."""
    cohort = [f"{name}:{value}" for name, value in finding["cohort"].items()]
    having = [*cohort, f"{suspect['dimension']}:{suspect['value']}"]
    is_said = not any(mark.isspace() for condition in having for mark in condition)
    if suspect["dimension"] not in DIMENSIONS or not is_said:  # which parts conditions there
        return ""
    begin = finding["before"]["from"][:10]
    sets = {"base": " ".join(cohort), "with": " ".join(having)}
    days = {"base_from": begin, "with_from": begin}
    return Question("/compare", {**sets, **days, "project": finding["project"]}).address


def _as_of(finding: Answer) -> tuple[str, ...]:
    by, onset = finding["attribution"]["as_of"], finding["attribution"]["onset_at"]
    notes = [f"Looked at by {moment(by)} (UTC)."] if by else []
    if onset and onset != finding["onset_at"]:
        notes.append(
            f"Of the onset before it was moved, {moment(onset)} (UTC): the next search looks again."
        )
    return tuple(notes)


def examples(finding: Answer) -> Panel | None:
    """List attempts that show the change best."""
    rows = [
        (
            Cell(
                example["job"],
                href=attempt_page(example["job"], example["number"], finding["project"]),
            ),
            str(example["number"]),
        )
        for example in finding["attribution"]["examples"]
    ]
    if not rows:
        return None
    return Panel("examples", "Attempts that show it", table=table("job|#attempt", rows))
