"""The state of a finding from run to run: pending, firing, resolved, reopened.

Every step is a function of the state before and of what one run found. So a repeated run changes
nothing, and production and simulations decide alike. Of two findings that report the same change
one goes on. Instants and durations are microseconds.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum, auto

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import (
    Finding,
    FindingKey,
    Resolution,
    Series,
    State,
    Verdict,
    absorbers,
    absorbs,
)

LASTING = frozenset({Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.SMALL})
"""While these fire, each run reports whether they still hold; silence means too few values. While
they are pending, each run that does not find them reports whether they may still hold."""


@dataclass(frozen=True, slots=True)
class StateRules:
    """How long to wait before each step."""

    runs: int = 2  #: a finding fires once this many runs found it
    quiet_runs: int = 2  #: and lapses or is resolved once this many runs in a row did not
    reopen_us: int = 72 * HOUR_US  #: found again within this time, it is the same one
    incident_us: int = 3 * DAY_US  #: an incident is over this long after it was first found


@dataclass(frozen=True, slots=True)
class FindingState:
    """The state of a finding. Once reopened, all but ``pending_us`` is of the last time.

    ``finding`` is the latest that held, with the gates of earlier ones that it lacks. While the
    state is pending, baseline and onset are those of the latest run; from firing on they stay.
    """

    verdict: Verdict
    state: State
    runs: int  #: that found it
    quiet_runs: int  #: in a row that did not; runs with too few values count as neither
    pending_us: int  #: when it was first found: with the key it identifies the regression
    onset_us: int
    baseline_from_us: int
    baseline_to_us: int
    last_run_us: int  #: the last that had values enough
    finding: Finding
    firing_us: int | None = None
    resolved_us: int | None = None
    reopened: int = 0  #: how often
    version: int = 0  #: grows by one with each transition that ``notifies``
    fired: Finding | None = None  #: the finding of the run since which it fires
    ended: Resolution | None = None  #: why it is resolved
    merged_into: FindingKey | None = None  #: set in the run that merges it
    is_noise: bool = False  #: somebody called it so: it explains nothing

    @property
    def key(self) -> FindingKey:
        """The identity by which later runs find it again."""
        return FindingKey(self.finding.fingerprint, self.verdict)

    @property
    def alerts(self) -> bool:
        """Whether receivers are notified; findings of other verdicts are only recorded."""
        return self.verdict is Verdict.REGRESSION


def is_firing_version(version: int) -> bool:
    """Whether a finding fires at a version: it starts and stops firing by turns, from 0."""
    return version % 2 == 1


class Transition(StrEnum):
    """What one run changed."""

    PENDING = auto()
    LAPSED = auto()  #: it was pending, and is inactive again
    FIRING = auto()
    RESOLVED = auto()
    REOPENED = auto()
    MERGED = auto()  #: it is resolved, as another finding reports the same change
    GONE = auto()  #: it is resolved, as nothing of its cohort runs any more
    ABSORBED = auto()  #: it was resolved, and is the begin of what another finding reports

    @property
    def notifies(self) -> bool:
        """Whether receivers are notified, if the verdict is one that alerts."""
        return self not in {Transition.PENDING, Transition.LAPSED, Transition.ABSORBED}

    @property
    def begins_to_fire(self) -> bool:
        """Whether it fires from this run on."""
        return self in {Transition.FIRING, Transition.REOPENED}


def step(
    before: FindingState | None,
    finding: Finding | None,
    at_us: int,
    rules: StateRules,
    *,
    stands: bool = False,
) -> FindingState | None:
    """Return the state of a finding after the run at *at_us*; None where it is inactive.

    *finding* is what that run found of the same key, or reported of one that fires; None where it
    found nothing. For a lasting verdict that fires, None means too few values: nothing changes.
    What is pending *stands* where nothing shows that its change is over. A run that is not later
    than the last changes nothing.
    """
    if before is None:
        return _begun(finding, at_us, rules) if finding is not None and finding.holds else None
    if at_us <= before.last_run_us:
        return before
    if before.state is State.FIRING:
        return _while_firing(before, finding, at_us, rules)
    again = finding if _is_found_again(before, finding) else None
    if before.state is State.RESOLVED:
        return _while_resolved(before, again, at_us, rules)
    return _while_pending(before, again, at_us, rules, stands=stands)


def advance(
    before: Mapping[FindingKey, FindingState],
    findings: Iterable[Finding],
    at_us: int,
    rules: StateRules,
    gone: Collection[Series] = (),
    standing: Collection[Series] = (),
) -> dict[FindingKey, FindingState]:
    """Take the step of a whole run: return all states after it, resolved ones included.

    A key of *before* that is missing from the answer became inactive. Of *gone* series nothing
    ran in all the time that was searched. Of *standing* ones that are pending nothing shows that
    the change is over.
    """
    by_key = _news(before, {FindingKey.of(finding): finding for finding in findings})
    by_fingerprint = {finding.fingerprint: finding for finding in by_key.values()}
    after = {}
    for key in {**before, **by_key}:
        state = before.get(key)
        finding = by_key.get(key)
        if finding is None and state is not None and state.state is State.FIRING:
            finding = by_fingerprint.get(key.fingerprint)  # an open one with another verdict now
        stands = state is not None and _stands(state, before, standing)
        now = step(state, finding, at_us, rules, stands=stands)
        if now is not None and finding is None and _is_gone(now, at_us, gone):
            now = resolved(replace(now, last_run_us=at_us), at_us, Resolution.GONE)
        if now is not None:
            after[key] = now
    after |= _merged(before, after, at_us)
    return after | _absorbed(after, rules)


def _stands(
    state: FindingState, before: Mapping[FindingKey, FindingState], standing: Collection[Series]
) -> bool:
    """Whether nothing shows that a change is over, and nothing that fires reports it."""
    if state.verdict not in LASTING or state.finding.series not in standing:
        return False
    heard = map(_placed, _heard(before).values())
    return not any(absorbs(other, _placed(state)) for other in heard)


def _news(
    before: Mapping[FindingKey, FindingState], of_run: Mapping[FindingKey, Finding]
) -> dict[FindingKey, Finding]:
    """Return the findings of a run without those that what fires reports, or another of them."""
    firing = _firing(before)
    placed = {key: _placed(state) for key, state in _heard(before).items()}
    reported = placed | {
        key: finding for key, finding in of_run.items() if finding.holds and key not in firing
    }
    keys = sorted(reported, key=lambda key: (key not in firing, key))
    no_news = {keys[place] for place in absorbers([reported[key] for key in keys])}
    return {key: finding for key, finding in of_run.items() if key in firing or key not in no_news}


def _firing(states: Mapping[FindingKey, FindingState]) -> dict[FindingKey, FindingState]:
    return {key: state for key, state in states.items() if state.state is State.FIRING}


def _heard(states: Mapping[FindingKey, FindingState]) -> dict[FindingKey, FindingState]:
    """Return what fires and is not called noise."""
    return {key: state for key, state in _firing(states).items() if not state.is_noise}


def _is_gone(state: FindingState, at_us: int, gone: Collection[Series]) -> bool:
    is_open = state.state is State.FIRING and state.verdict in LASTING
    return is_open and state.finding.series in gone and state.last_run_us < at_us


def _merged(
    before: Mapping[FindingKey, FindingState],
    after: Mapping[FindingKey, FindingState],
    at_us: int,
) -> dict[FindingKey, FindingState]:
    """Return, resolved, those that fired before for what another one reports by now."""
    firing = sorted(_heard(after).values(), key=lambda state: (state.pending_us, state.key))
    into = absorbers([_placed(state) for state in firing])
    fired = _firing(before)
    return {
        state.key: replace(resolved(state, at_us, Resolution.MERGED), merged_into=firing[root].key)
        for state, root in ((firing[place], root) for place, root in into.items())
        if state.key in fired and at_us >= state.last_run_us
    }


def _absorbed(
    states: Mapping[FindingKey, FindingState], rules: StateRules
) -> dict[FindingKey, FindingState]:
    """Return the incidents that were over shortly before what fires by now was found.

    Days of one change look like an incident as long as they are few.
    """
    return {
        incident.key: replace(incident, ended=Resolution.MERGED, merged_into=state.key)
        for incident in states.values()
        if incident.verdict is Verdict.INCIDENT and incident.ended is Resolution.BETTER
        for state in _heard(states).values()
        if (over_us := incident.resolved_us or 0) >= state.onset_us
        and state.pending_us - over_us <= rules.reopen_us
        and absorbs(_placed(state), _placed(incident))
    }


def _placed(state: FindingState) -> Finding:
    """Return the finding with the verdict and the onset that it has kept."""
    return replace(state.finding, verdict=state.verdict, onset_us=state.onset_us)


def transition(before: FindingState | None, after: FindingState | None) -> Transition | None:
    """Return what changed between two states of the same key, if anything did."""
    if after is None:
        return None if before is None else Transition.LAPSED
    if before is None or before.pending_us != after.pending_us:
        return Transition.FIRING if after.state is State.FIRING else Transition.PENDING
    if before.state is after.state:
        is_absorbed = before.ended is not after.ended and after.ended is Resolution.MERGED
        return Transition.ABSORBED if is_absorbed else None
    if after.state is State.RESOLVED:
        return _ENDED.get(after.ended, Transition.RESOLVED)
    return Transition.REOPENED if after.reopened > before.reopened else Transition.FIRING


_ENDED: Mapping[Resolution | None, Transition] = {
    Resolution.MERGED: Transition.MERGED,
    Resolution.GONE: Transition.GONE,
}


def resolved(
    state: FindingState, at_us: int, ended: Resolution = Resolution.BETTER
) -> FindingState:
    """Return *state* as resolved at *at_us*."""
    return replace(
        state,
        state=State.RESOLVED,
        runs=0,
        quiet_runs=0,
        resolved_us=at_us,
        ended=ended,
        version=state.version + 1,
    )


def _begun(finding: Finding, at_us: int, rules: StateRules) -> FindingState:
    begun = FindingState(
        verdict=finding.verdict,
        state=State.PENDING,
        runs=0,
        quiet_runs=0,
        pending_us=at_us,
        onset_us=finding.onset_us,
        baseline_from_us=finding.before.from_us,
        baseline_to_us=finding.before.to_us,
        last_run_us=at_us,
        finding=finding,
    )
    return _confirmed(begun, finding, at_us, rules)


def _confirmed(
    before: FindingState, finding: Finding, at_us: int, rules: StateRules
) -> FindingState:
    """Count a run that found what is pending; it fires after enough of them."""
    fires = before.runs + 1 >= rules.runs
    return replace(
        before,
        state=State.FIRING if fires else State.PENDING,
        runs=before.runs + 1,
        quiet_runs=0,
        onset_us=finding.onset_us,
        baseline_from_us=finding.before.from_us,
        baseline_to_us=finding.before.to_us,
        last_run_us=at_us,
        finding=finding,
        firing_us=at_us if fires else None,
        resolved_us=None,
        ended=None,
        merged_into=None,
        version=before.version + fires,
        fired=finding if fires else None,
    )


def _while_pending(
    before: FindingState,
    again: Finding | None,
    at_us: int,
    rules: StateRules,
    *,
    stands: bool,
) -> FindingState | None:
    """Keep the place of what is pending over a run without it, but not over several in a row.

    A change near the limit is found on most days, not on all.
    """
    if again is not None:
        return _confirmed(before, again, at_us, rules)
    quiet_runs = 0 if stands else before.quiet_runs + 1
    quiet = replace(before, quiet_runs=quiet_runs, last_run_us=at_us)
    return None if quiet.quiet_runs >= rules.quiet_runs else quiet


def _while_firing(
    before: FindingState, finding: Finding | None, at_us: int, rules: StateRules
) -> FindingState:
    if finding is None and before.verdict in LASTING:
        return before
    if finding is not None and _still_holds(before, finding, at_us, rules):
        same = finding.verdict is before.verdict
        return replace(
            before,
            runs=before.runs + 1,
            quiet_runs=0,
            last_run_us=at_us,
            finding=_with_gates_of(before.finding, finding) if same else before.finding,
        )
    quiet = replace(before, runs=0, quiet_runs=before.quiet_runs + 1, last_run_us=at_us)
    return resolved(quiet, at_us) if quiet.quiet_runs >= rules.quiet_runs else quiet


def _still_holds(before: FindingState, finding: Finding, at_us: int, rules: StateRules) -> bool:
    """Whether a run confirms what fires.

    One bad day, which makes a new finding an incident, does not end a lasting one. Relabelled
    time or another mix of jobs does. A small one that costs more by now stands until the
    regression that it became fires, and absorbs it.
    """
    if before.verdict is Verdict.INCIDENT:
        in_time = at_us - before.pending_us < rules.incident_us
        return in_time and finding.verdict is Verdict.INCIDENT
    if not finding.holds or finding.verdict is before.verdict:
        return finding.holds
    if before.verdict is Verdict.SMALL and finding.verdict is Verdict.REGRESSION:
        return True
    return before.verdict in LASTING and finding.verdict is Verdict.INCIDENT


def _with_gates_of(earlier: Finding, finding: Finding) -> Finding:
    """Return *finding* with those gates of an *earlier* one, too, that its run did not check."""
    names = {gate.name for gate in finding.gates}
    missing = tuple(gate for gate in earlier.gates if gate.name not in names)
    return replace(finding, gates=(*finding.gates, *missing))


def _is_found_again(before: FindingState, finding: Finding | None) -> bool:
    if finding is None or not finding.holds or finding.verdict is not before.verdict:
        return False
    if before.verdict is Verdict.INCIDENT and before.resolved_us is not None:
        return finding.onset_us > before.resolved_us  # else it is the same day, in its window
    return True


def _while_resolved(
    before: FindingState, finding: Finding | None, at_us: int, rules: StateRules
) -> FindingState:
    """Stay resolved until enough runs in a row, the first of them in time, found it again."""
    assert before.resolved_us is not None
    if at_us <= before.resolved_us:
        return before  # somebody accepted it during this run
    if finding is None:
        return replace(before, runs=0, last_run_us=at_us)
    if not before.runs and at_us - before.resolved_us > rules.reopen_us:
        return _begun(finding, at_us, rules)
    again = _confirmed(before, finding, at_us, rules)
    if again.state is State.FIRING:
        return replace(again, reopened=before.reopened + 1)
    return replace(before, runs=again.runs, last_run_us=at_us)
