"""One run over a project: its findings, their severity, and what they are associated with.

A backtest says what would have fired and resolved, had the detector run on each of some days.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US, WEEK_US
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    FindingKey,
    Impact,
    Metric,
    RunFinding,
    Series,
    SeriesCohort,
    Severity,
    State,
    Verdict,
)
from ett_service.core.regressions.state import (
    LASTING,
    FindingState,
    StateRules,
    Transition,
    advance,
    transition,
)
from ett_service.detection.attribution.attribute import attribute
from ett_service.detection.observed.inputs import observe
from ett_service.detection.sample import Floats, FrozenBaseline, Memory, Observed, Options, Plan
from ett_service.detection.scan import Power, scan
from ett_service.detection.verdict import is_outage
from ett_service.detection.window import within
from ett_service.fleet.economy import Economy

MEDIUM, HIGH = 0.005, 0.02
"""Shares of the project's GPU-hours from which on a finding has that severity."""

MOST_DAYS = 180
"""No baseline reaches further back."""

_UNATTRIBUTED = Attribution({}, {})
_NO_SERIES: Mapping[Series, int] = MappingProxyType({})

_NO_MEMORY = Memory()


@dataclass(frozen=True, slots=True)
class RunResult:
    """The answer of one run over a project."""

    run_findings: tuple[RunFinding, ...]
    power: tuple[Power, ...]
    series: int  #: how many were tested
    gone: tuple[Series, ...] = ()  #: open ones of whose cohort nothing ran in the recent days
    standing: tuple[Series, ...] = ()  #: see ``Scan``

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings alone."""
        return tuple(each.finding for each in self.run_findings)


def evaluate(
    conn: Connection, project_id: int, as_of_us: int, plan: Plan, memory: Memory
) -> RunResult:
    """Search a project for changes, as of an instant in microseconds."""
    observed = observe(
        conn, project_id, as_of_us, days_to_read(as_of_us, plan.options, memory), plan
    )
    result = search(observed, as_of_us, plan, memory)
    run_findings = (attributed(conn, project_id, each, observed) for each in result.run_findings)
    return replace(result, run_findings=tuple(run_findings))


def search(observed: Observed, as_of_us: int, plan: Plan, memory: Memory) -> RunResult:
    """Search what was observed; nothing is attributed."""
    options = plan.options
    sample = observed.sample(as_of_us, days_to_read(as_of_us, options, memory))
    scanned = scan(sample, options, memory)
    impacts = Impacts(observed, as_of_us, options.recent_days, plan.economy)
    run_findings = tuple(map(impacts.rated, scanned.findings))
    return RunResult(run_findings, scanned.power, scanned.series, scanned.gone, scanned.standing)


def attributed(
    conn: Connection, project_id: int, run_finding: RunFinding, observed: Observed
) -> RunFinding:
    """Attribute a finding, unless its change is no longer there."""
    finding = run_finding.finding
    if not finding.holds:
        return run_finding
    return replace(run_finding, attribution=attribute(conn, project_id, finding, observed))


def days_to_read(as_of_us: int, options: Options, memory: Memory) -> int:
    """Return how many days a run reads: both windows, and the frozen baselines of what fires."""
    first_us = min((frozen.from_us for frozen in memory.followed.values()), default=as_of_us)
    frozen_days = -(-(as_of_us - first_us) // DAY_US)
    return min(MOST_DAYS, max(options.recent_days + options.baseline_days, frozen_days))


def memory_of(
    states: Iterable[FindingState], accepted: Mapping[Series, int] = _NO_SERIES
) -> Memory:
    """Return the memory; *accepted* is since when values may be a series' baseline.

    A firing finding keeps its baseline, and what is pending its place. Days of incidents and of
    resolved regressions, small ones too, are no part of a later baseline: else a recovery would
    look like an improvement, and a relapse like nothing. An accepted change is normal from then
    on, and noise was normal all along.
    """
    frozen: dict[Series, FrozenBaseline] = {}
    small: dict[Series, FrozenBaseline] = {}
    noise = set[Series]()
    pending: dict[Series, FrozenBaseline] = {}
    bad: dict[Series, tuple[tuple[int, int], ...]] = {}
    outages: dict[SeriesCohort, tuple[tuple[int, int], ...]] = {}
    for state in states:
        series = state.finding.series
        if state.state is State.FIRING and state.verdict is Verdict.SMALL:
            small[series] = _baseline_of(state)
        elif state.state is State.FIRING and state.verdict in LASTING:
            frozen[series] = _baseline_of(state)
            if state.is_noise:
                noise.add(series)
        elif state.state is State.PENDING and state.verdict in LASTING:
            pending[series] = _baseline_of(state)
        elif not state.is_noise and (span := _bad_days(state)) and series not in accepted:
            bad[series] = (*bad.get(series, ()), span)
            if is_outage(series.subject.metric, state.verdict, span):
                outages[series.cohort] = (*outages.get(series.cohort, ()), span)
    return Memory(frozen, frozenset(noise), small, pending, dict(accepted), bad, outages)


def _baseline_of(state: FindingState) -> FrozenBaseline:
    return FrozenBaseline(
        from_us=state.baseline_from_us,
        to_us=state.baseline_to_us,
        onset_us=state.onset_us,
        verdict=state.verdict,
    )


def _bad_days(state: FindingState) -> tuple[int, int] | None:
    """Return the span in which values were not as usual; None where they were."""
    after = state.finding.after
    if state.verdict is Verdict.INCIDENT:
        return after.from_us, after.to_us
    is_worse = state.verdict in {Verdict.REGRESSION, Verdict.SMALL}
    if is_worse and state.resolved_us is not None:
        return state.onset_us, state.resolved_us
    return None


class Impacts:
    """Rates the findings of one run by the GPU-hours held in its recent days."""

    def __init__(
        self, observed: Observed, as_of_us: int, recent_days: int, economy: Economy
    ) -> None:
        self._observed = observed
        self._economy = economy
        self._from_us = as_of_us - recent_days * DAY_US
        self._weeks = recent_days * DAY_US / WEEK_US
        self._hours = observed.gpu_hours(self._from_us, recent_days)

    def rated(self, finding: Finding) -> RunFinding:
        """Return a finding with its whole impact and its severity."""
        impact = self.impact(finding)
        return RunFinding(replace(finding, impact=impact), self.severity(impact), _UNATTRIBUTED)

    def impact(self, finding: Finding) -> Impact:
        """Return the finding's impact with ETT points and costs.

        Points are of the ETT% of its cohort: the lost share of all hours that it held; None for
        slower steps, which are effective training all the same. Costs go by the price of each
        hardware and day, and are None where one of them has no price.
        """
        lost = finding.impact.gpu_hours_per_week
        inside = within(self._observed.cohorts, finding.series.cohort)
        hours = self._hours[inside].sum(axis=0)  # by day and hardware
        held = float(hours.sum()) / self._weeks
        if lost is None or not held:
            return finding.impact
        price = self._mean_price(hours) if self._economy.prices else None
        return replace(
            finding.impact,
            ett_points=None if _is_effective(finding) else -100 * lost / held,
            cost_per_week=None if price is None else lost * price,
            currency="" if price is None else self._economy.currency,
        )

    def severity(self, impact: Impact) -> Severity:
        """Return the severity of an impact among all that the project does."""
        whole = float(self._hours.sum()) / self._weeks
        if impact.gpu_hours_per_week is None or not whole:
            return Severity.LOW
        share = abs(impact.gpu_hours_per_week) / whole
        if share >= HIGH:
            return Severity.HIGH
        return Severity.MEDIUM if share >= MEDIUM else Severity.LOW

    def _mean_price(self, hours: Floats) -> float | None:
        total = 0.0
        for day, place in np.argwhere(hours > 0).tolist():
            at_us = self._from_us + day * DAY_US
            price = self._economy.price(self._observed.hardware[place], at_us)
            if price is None:
                return None
            total += float(price) * float(hours[day, place])
        return total / float(hours.sum())


def _is_effective(finding: Finding) -> bool:
    return finding.series.subject.metric is Metric.STEP_SECONDS


@dataclass(slots=True)
class Course:
    """A finding from when it was first found to the last run; a later one has its own."""

    standing: FindingState
    latest: RunFinding  #: of the last run that found it
    latest_us: int  #: when that run was
    fired: RunFinding | None = None  #: of the run since which it fires
    steps: list[tuple[int, Transition]] = field(default_factory=list)

    @property
    def lapsed(self) -> bool:
        """Whether it went away before it was found often enough."""
        return self.steps[-1][1] is Transition.LAPSED


@dataclass(frozen=True, slots=True)
class Backtest:
    """All findings of the runs, the earliest first, and the answer of each run."""

    courses: Sequence[Course]
    runs: Sequence[RunResult]  #: only the last has its power

    @property
    def last(self) -> RunResult:
        """The answer of the last run."""
        return self.runs[-1]


def retrace(
    conn: Connection,
    project_id: int,
    runs_at: Sequence[int],
    plan: Plan,
    rules: StateRules,
    memory: Memory = _NO_MEMORY,
) -> tuple[Backtest, Observed]:
    """Read a project once and run the detector at instants in ascending order, whole days apart.

    What did not lapse is attributed. The power of the last run is that of a search with *memory*,
    which is of the searches that were stored before it.
    """
    window = plan.options.recent_days + plan.options.baseline_days
    before = (runs_at[-1] - runs_at[0]) // DAY_US
    days = max(window + before, days_to_read(runs_at[-1], plan.options, memory))
    observed = observe(conn, project_id, runs_at[-1], days, plan)
    retraced = backtest(observed, runs_at, plan, rules)
    if memory != _NO_MEMORY:
        power = search(observed, runs_at[-1], plan, memory).power
        last = replace(retraced.last, power=power)
        retraced = replace(retraced, runs=[*retraced.runs[:-1], last])
    for course in retraced.courses:
        if not course.lapsed:
            # Nearest to the onset, what came with it stands out most.
            first = attributed(conn, project_id, course.fired or course.latest, observed)
            course.latest = replace(course.latest, attribution=first.attribution)
    return retraced, observed


def backtest(observed: Observed, runs_at: Sequence[int], plan: Plan, rules: StateRules) -> Backtest:
    """Run the detector at instants in ascending order, whole days before the observations end.

    Every run knows the findings of those before it, and no value that was not over by then.
    Nothing is attributed: see ``retrace``.
    """
    assert runs_at
    states: dict[FindingKey, FindingState] = {}
    courses: dict[tuple[FindingKey, int], Course] = {}
    runs: list[RunResult] = []
    for at_us in runs_at:
        result = search(observed, at_us, plan, memory_of(states.values()))
        runs.append(result if at_us == runs_at[-1] else replace(result, power=()))
        after = advance(states, result.findings, at_us, rules, result.gone, result.standing)
        by_key = {FindingKey.of(each.finding): each for each in result.run_findings}
        for key in states | after:
            _extend(courses, states.get(key), after.get(key), by_key.get(key), at_us)
        states = after
    return Backtest(list(courses.values()), runs)


def _extend(
    courses: dict[tuple[FindingKey, int], Course],
    before: FindingState | None,
    after: FindingState | None,
    run_finding: RunFinding | None,
    at_us: int,
) -> None:
    """Extend the course of a finding by one run."""
    standing = after or before
    assert standing is not None
    key = (standing.key, standing.pending_us)
    if key not in courses:
        assert run_finding is not None
        courses[key] = Course(standing, run_finding, at_us)
    course = courses[key]
    course.standing = standing
    if run_finding is not None and run_finding.finding.holds:
        course.latest, course.latest_us = run_finding, at_us
    step = transition(before, after)
    if step is None:
        return
    course.steps.append((at_us, step))
    if step.begins_to_fire:
        course.fired = course.latest
