"""The words of a message: what every message says, within text limits; labels and annotations."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ett_service.charts import units
from ett_service.charts.units import amount, count, money, points
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.core.regressions.finding import (
    Metric,
    NearMarker,
    Side,
    SideBySide,
    Subject,
    Suspect,
)
from ett_service.notifications.notice import Notice, Status

ALERT = "EttRegressionActive"
"""The name of the alert, as Prometheus has it."""

MOST_SUSPECTS = 3
MOST_MARKERS = 2
ELLIPSIS = "…"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_CLUSTER = "cluster"


_PLAIN = {
    Metric.TIME_TO_START_SECONDS: "time to start",
    Metric.TIME_TO_RECOVER_SECONDS: "time to recover",
    Metric.CHECKPOINT_BLOCKING_SECONDS: "checkpoint blocking",
    Metric.STEP_SECONDS: "step time",
    Metric.UNSAVED_SECONDS: "unsaved training",
    Metric.ETT_RATIO: "ETT%",
}
_COUNTED = {
    Metric.TIME_TO_RECOVER_SECONDS: "recoveries",
    Metric.CHECKPOINT_BLOCKING_SECONDS: "saves",
    Metric.STEP_SECONDS: "days of attempts",
    Metric.UNSAVED_SECONDS: "failures",
    Metric.FAILURES_PER_GPU_HOUR: "failures",
    Metric.ETT_RATIO: "days",
}


@dataclass(frozen=True, slots=True)
class Wording:
    """The parts of a message; only ``remark`` may be empty."""

    headline: str
    what: str
    how_much: str
    since: str
    associated: str
    cost: str
    examples: tuple[tuple[str, str], ...]  #: what to show and its link, which may be empty
    more: str  #: how to find out more
    remark: str  #: that it is a test or a reminder, or why it is over

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """The five facts that every message states, by their names."""
        return (
            ("What", self.what),
            ("How much", self.how_much),
            ("Since", self.since),
            ("Associated with", self.associated),
            ("Costs", self.cost),
        )


def word(notice: Notice, most: int) -> Wording:
    """Word *notice*; no name takes more than *most* characters."""
    return Wording(
        headline=_headline(notice, most),
        what=_what(notice, most),
        how_much=_how_much(notice),
        since=_since(notice),
        associated=_associated(notice, most),
        cost=_cost(notice),
        examples=tuple(
            (f"{shown(job, most)}, attempt {number}", link) for job, number, link in notice.examples
        ),
        more=f"ett regressions explain {notice.id}",
        remark="This is a test: nothing happened." if notice.is_test else notice.remark,
    )


def labels(notice: Notice, most: int) -> dict[str, str]:
    """Return the labels of an alert; those without a value are left out, as in Alertmanager."""
    subject = notice.finding.series.subject
    values = {
        "alertname": ALERT,
        "cluster": notice.cohort.get(_CLUSTER, ""),
        "cohort": cohort_label(notice),
        "phase": subject.phase,
        "stage": subject.stage,
        "cause": subject.cause,
        "metric": subject.metric.value,
        "severity": notice.severity,
        "project": notice.project,
        "test": "true" if notice.is_test else "",
    }
    return {name: exact(value, most) for name, value in values.items() if value}


def cohort_label(notice: Notice) -> str:
    """Return the values of the dimensions but the cluster, which has a label of its own."""
    return " ".join(value for name, value in notice.cohort.items() if name != _CLUSTER and value)


def annotations(notice: Notice, most: int) -> dict[str, str]:
    """Return the annotations of an alert: its words and links."""
    wording = word(notice, most)
    sentences = [
        wording.remark,
        f"{wording.what}: {wording.how_much}.",
        f"Since {wording.since}.",
        f"Associated with {wording.associated}.",
        f"Costs {wording.cost}.",
        *(f"Example: {name}." for name, _ in wording.examples),
        f"More: {wording.more}",
    ]
    values = {
        "summary": wording.headline,
        "description": " ".join(filter(None, sentences)),
        "runbook_url": notice.runbook,
        "dashboard_url": notice.link,
    }
    return {name: value for name, value in values.items() if value}


def subject_in_words(subject: Subject, most: int) -> str:
    """Name the metric: ``pt2_compile``, ``failures by infra``, ``time to start``."""
    if subject.metric is Metric.PHASE_SECONDS:
        return shown(subject.phase, most)
    if subject.metric is Metric.STAGE_SECONDS:
        return f"{shown(subject.phase, most)}/{shown(subject.stage, most)}"
    if subject.metric is Metric.CACHE_MISS_RATIO:
        return f"cache misses of {shown(subject.phase, most)}"
    if subject.metric is Metric.FAILURES_PER_GPU_HOUR:
        return f"failures by {shown(subject.cause, most)}" if subject.cause else "failures"
    return _PLAIN[subject.metric]


def counted(metric: Metric) -> str:
    """Name what is counted: attempts, saves, failures."""
    return _COUNTED.get(metric, "attempts")


def _headline(notice: Notice, most: int) -> str:
    finding = notice.finding
    subject = subject_in_words(finding.series.subject, most)
    values = [shown(value, most) or f"unknown {name}" for name, value in notice.cohort.items()]
    where = ", ".join(values) or f"all of {shown(notice.project, most)}"
    test = "Test: " if notice.is_test else ""
    resolved = "Resolved: " if notice.status is Status.RESOLVED else ""
    sides = f"{_value(notice, finding.before)} -> {_value(notice, finding.after)}"
    change = " ".join([_change(notice), *(f"(mean {mean})" for mean in _means(notice))])
    return f"{test}{resolved}{subject} {change} in {where} ({sides}), {_gpu_hours(notice)}"


def _what(notice: Notice, most: int) -> str:
    subject = subject_in_words(notice.finding.series.subject, most)
    labels = [f"{name} {shown(value, most) or 'unknown'}" for name, value in notice.cohort.items()]
    where = ", ".join(labels) or "all cohorts"
    verb = "was worse" if notice.status is Status.RESOLVED else "is worse"
    return f"{subject} {verb} in {where}, project {shown(notice.project, most)}"


def _how_much(notice: Notice) -> str:
    finding = notice.finding
    metric = finding.series.subject.metric
    name = "median " if metric.unit == "seconds" else ""
    sides = f"{name}{_value(notice, finding.before)} -> {_value(notice, finding.after)}"
    interval = f"{_difference(notice, finding.low)} to {_difference(notice, finding.high)}"
    numbers = f"{count(finding.after.n)} {counted(metric)} against {count(finding.before.n)} before"
    effect = _change(notice)
    if metric is Metric.CACHE_MISS_RATIO:
        effect = f"mean time {_factor(finding.ratio)}"
    means = [f"mean {mean}" for mean in _means(notice)]
    return ", ".join([sides, f"{effect} (95% interval {interval})", *means, numbers])


def _since(notice: Notice) -> str:
    since = f"about {minute(notice.finding.onset_us)}, reported {minute(notice.starts_us)}"
    if notice.status is Status.FIRING or notice.ends_us is None:
        return since
    return f"{since}, resolved {minute(notice.ends_us)}"


def _associated(notice: Notice, most: int) -> str:
    suspects = [_suspect(suspect, most) for suspect in notice.attribution.suspects[:MOST_SUSPECTS]]
    markers = [_marker(marker, most) for marker in notice.attribution.markers[:MOST_MARKERS]]
    if not suspects:
        suspects = ["no version, image, host or other value that explains half of it"]
    beside = notice.attribution.side_by_side
    compared = [] if beside is None else [_compared(beside, most)]
    return "; ".join([*suspects, *compared, *markers])


def _compared(beside: SideBySide, most: int) -> str:
    others = shown(beside.against, most) or "all others"
    ran = f"{shown(beside.dimension, most)} {shown(beside.value, most) or 'unknown'}"
    return f"side by side {ran} against {others}: {_factor(beside.ratio)}"


def _suspect(suspect: Suspect, most: int) -> str:
    value = shown(suspect.value, most) or "unknown"
    return f"{shown(suspect.dimension, most)} {value} (explains {suspect.explains:.0%})"


def _marker(marker: NearMarker, most: int) -> str:
    name = f"{shown(marker.kind, most)} {shown(marker.title, most)}"
    return f"near it: {name} at {minute(marker.at_us)}"


def _cost(notice: Notice) -> str:
    impact = notice.finding.impact
    costs = [_gpu_hours(notice)]
    if impact.cost_per_week is not None:
        costs.append(f"{money(impact.cost_per_week, impact.currency)}/week")
    if impact.ett_points is not None:
        costs.append(f"{points(impact.ett_points / 100)} of ETT")
    return ", ".join(costs)


def _gpu_hours(notice: Notice) -> str:
    hours = notice.finding.impact.gpu_hours_per_week
    return "GPU-hours unknown" if hours is None else f"{amount(hours)} GPU-h/week"


def _value(notice: Notice, side: Side) -> str:
    unit = notice.finding.series.subject.metric.unit
    return units.value(unit, side.median / SECOND_US if unit == "seconds" else side.median)


def _change(notice: Notice) -> str:
    finding = notice.finding
    if finding.series.subject.metric.unit == "ratio":
        return points(finding.after.median - finding.before.median)
    return _factor(finding.ratio)


def _means(notice: Notice) -> Iterator[str]:
    """Yield by what the mean changed, which is what is paid for, where that is shown nowhere."""
    finding = notice.finding
    is_shown = finding.series.subject.metric is Metric.CACHE_MISS_RATIO
    if finding.mean_ratio is not None and not is_shown:
        yield _factor(finding.mean_ratio)


def _difference(notice: Notice, ratio: float) -> str:
    """Show one end of the interval as the change itself is shown."""
    if notice.finding.series.subject.metric is Metric.ETT_RATIO and math.isfinite(ratio):
        return points(notice.finding.before.median * (ratio - 1))
    return _factor(ratio)


def _factor(ratio: float) -> str:
    return f"{ratio - 1:+,.0%}" if math.isfinite(ratio) else "from nothing"


def minute(us: int) -> str:
    """Write an instant to the minute: ``2026-11-05 22:00 UTC``."""
    return f"{rfc3339(us)[:16].replace('T', ' ')} UTC"


def shown(text: str, most: int) -> str:
    """Return *text* on one line, of at most *most* characters.

    What cannot be seen is made visible: control characters, those that turn the direction of
    writing, and halves of surrogate pairs would otherwise show another name than there is.
    """
    return cut("".join(map(_visible, text)), most)


def exact(text: str, most: int) -> str:
    """Return *text* as a program compares it: only what UTF-8 cannot carry is replaced."""
    return cut(text.encode("utf-8", "replace").decode(), most)


def cut(text: str, most: int) -> str:
    """Return *text*, or its beginning and an ellipsis, in at most *most* characters."""
    return text if len(text) <= most else text[: most - 1] + ELLIPSIS


def fitted(text: str, most: int, escape: Callable[[str], str]) -> str:
    """Escape *text* character by character, in at most *most* characters of what comes out."""
    pieces = [escape(character) for character in text]
    if sum(map(len, pieces)) <= most:
        return "".join(pieces)
    room = most - len(ELLIPSIS)
    fitting: list[str] = []
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            break
        fitting.append(piece)
    return "".join(fitting) + ELLIPSIS


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else _REPLACEMENT
