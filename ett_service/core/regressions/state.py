"""From what each run finds to where a regression stands: pending, firing, resolved, reopened.

Everything here is a function of what was known and what one run found, so a run told twice
changes nothing the second time, and what decides in production is what a simulation measures.
Instants and durations are microseconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from typing import NamedTuple

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Finding, State, Verdict

LASTING = frozenset({Verdict.REGRESSION, Verdict.IMPROVEMENT})
"""Each run tells of these, once they fire, whether they still hold; silence is want of values."""


@dataclass(frozen=True, slots=True)
class StateRules:
    """How long to wait before each step."""

    runs: int = 2  #: it fires once so many in a row found it
    quiet_runs: int = 2  #: and is resolved once so many in a row did not
    reopen_us: int = 72 * HOUR_US  #: found again within so long, it is the same one
    incident_us: int = 3 * DAY_US  #: an incident is over so long after it was first found


class FindingKey(NamedTuple):
    """What makes two findings the same one, seen twice."""

    fingerprint: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class FindingState:
    """Where a finding stands. Of one that was reopened, all but ``pending_us`` is of the last time.

    ``finding`` is the last that held, with the gates of earlier ones that it lacks. While it is
    pending, baseline and onset are those of the latest run; from firing on they stay.
    """

    verdict: Verdict
    state: State
    runs: int  #: that found it, in a row
    quiet_runs: int  #: that did not, in a row; runs that saw too little count for neither
    pending_us: int  #: when it was first found: with the thread it names the finding
    onset_us: int
    baseline_from_us: int
    baseline_to_us: int
    last_run_us: int  #: the last that could tell
    finding: Finding
    firing_us: int | None = None
    resolved_us: int | None = None
    reopened: int = 0  #: how often
    version: int = 0  #: grows with each step that is told, see ``Transition.told``

    @property
    def thread(self) -> FindingKey:
        """Return what it is found again by."""
        return FindingKey(self.finding.fingerprint, self.verdict)

    @property
    def alerts(self) -> bool:
        """Whether people are told of it; the other verdicts are only recorded."""
        return self.verdict is Verdict.REGRESSION


class Transition(StrEnum):
    """What one run changed."""

    PENDING = auto()
    LAPSED = auto()  #: it was pending, and is inactive again
    FIRING = auto()
    RESOLVED = auto()
    REOPENED = auto()

    @property
    def told(self) -> bool:
        """Whether receivers hear of it, if the verdict is one that alerts."""
        return self in {Transition.FIRING, Transition.RESOLVED, Transition.REOPENED}


def step(
    known: FindingState | None, finding: Finding | None, at_us: int, rules: StateRules
) -> FindingState | None:
    """Return where a finding stands after the run at *at_us*; None where it is inactive.

    *finding* is what that run found of the same thread, or what it says of one that fires; None
    where it found nothing. Of what lasts (``LASTING``) and fires, None means that too little was
    seen to tell: then nothing changes. A run that is not later than the last changes nothing.
    """
    if known is None:
        return _begun(finding, at_us, rules) if finding is not None and finding.holds else None
    if at_us <= known.last_run_us:
        return known
    if known.state is State.FIRING:
        return _firing(known, finding, at_us, rules)
    found = finding if _is_found_again(known, finding) else None
    if known.state is State.RESOLVED:
        return _resolved(known, found, at_us, rules)
    return None if found is None else _found(known, found, at_us, rules)


def advance(
    known: Mapping[FindingKey, FindingState],
    findings: Iterable[Finding],
    at_us: int,
    rules: StateRules,
) -> dict[FindingKey, FindingState]:
    """Take the step of a whole run: return all that stands after it, resolved ones included.

    A thread of *known* that is missing in the answer became inactive.
    """
    found = {FindingKey(one.fingerprint, one.verdict): one for one in findings}
    told = {one.fingerprint: one for one in found.values()}
    after = {}
    for thread in {**known, **found}:
        before = known.get(thread)
        said = found.get(thread)
        if said is None and before is not None and before.state is State.FIRING:
            said = told.get(thread.fingerprint)  # of an open one that its run calls otherwise
        if (now := step(before, said, at_us, rules)) is not None:
            after[thread] = now
    return after


def transition(before: FindingState | None, after: FindingState | None) -> Transition | None:
    """Return what changed between two standings of a thread, if anything did."""
    if after is None:
        return None if before is None else Transition.LAPSED
    if before is None or before.pending_us != after.pending_us:
        return Transition.FIRING if after.state is State.FIRING else Transition.PENDING
    if before.state is after.state:
        return None
    if after.state is State.RESOLVED:
        return Transition.RESOLVED
    return Transition.REOPENED if after.reopened > before.reopened else Transition.FIRING


def resolved(known: FindingState, at_us: int) -> FindingState:
    """Return *known* as resolved at *at_us*: by quiet runs, or by somebody who accepts it."""
    return replace(
        known,
        state=State.RESOLVED,
        runs=0,
        quiet_runs=0,
        resolved_us=at_us,
        version=known.version + 1,
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
    return _found(begun, finding, at_us, rules)


def _found(known: FindingState, finding: Finding, at_us: int, rules: StateRules) -> FindingState:
    """Count a run that found what is pending; it fires if that makes enough."""
    fires = known.runs + 1 >= rules.runs
    return replace(
        known,
        state=State.FIRING if fires else State.PENDING,
        runs=known.runs + 1,
        quiet_runs=0,
        onset_us=finding.onset_us,
        baseline_from_us=finding.before.from_us,
        baseline_to_us=finding.before.to_us,
        last_run_us=at_us,
        finding=finding,
        firing_us=at_us if fires else None,
        resolved_us=None,
        version=known.version + fires,
    )


def _firing(
    known: FindingState, finding: Finding | None, at_us: int, rules: StateRules
) -> FindingState:
    if finding is None and known.verdict in LASTING:
        return known
    if finding is not None and _still_holds(known, finding, at_us, rules):
        same = finding.verdict is known.verdict
        return replace(
            known,
            runs=known.runs + 1,
            quiet_runs=0,
            last_run_us=at_us,
            finding=_explained(known.finding, finding) if same else known.finding,
        )
    quiet = replace(known, runs=0, quiet_runs=known.quiet_runs + 1, last_run_us=at_us)
    return resolved(quiet, at_us) if quiet.quiet_runs >= rules.quiet_runs else quiet


def _still_holds(known: FindingState, finding: Finding, at_us: int, rules: StateRules) -> bool:
    """Whether a run confirms what fires.

    One bad day, which makes a new finding an incident, does not end what outlived others; that
    time only moved between phases, or that only other jobs ran, does.
    """
    if known.verdict is Verdict.INCIDENT:
        in_time = at_us - known.pending_us < rules.incident_us
        return in_time and finding.verdict is Verdict.INCIDENT
    if known.verdict in LASTING and finding.verdict is Verdict.INCIDENT:
        return finding.holds
    return finding.holds and finding.verdict is known.verdict


def _explained(found: Finding, now: Finding) -> Finding:
    """Return *now* with those conditions, too, that only the runs that found it looked at."""
    looked_at = {gate.name for gate in now.gates}
    kept = tuple(gate for gate in found.gates if gate.name not in looked_at)
    return replace(now, gates=(*now.gates, *kept))


def _is_found_again(known: FindingState, finding: Finding | None) -> bool:
    if finding is None or not finding.holds or finding.verdict is not known.verdict:
        return False
    if known.verdict is Verdict.INCIDENT and known.resolved_us is not None:
        return finding.onset_us > known.resolved_us  # else it is the same day, in its window
    return True


def _resolved(
    known: FindingState, found: Finding | None, at_us: int, rules: StateRules
) -> FindingState:
    """Stay resolved until enough runs in a row, the first of them in time, found it again."""
    assert known.resolved_us is not None
    if at_us <= known.resolved_us:
        return known  # somebody accepted it while this run was at work
    if found is None:
        return replace(known, runs=0, last_run_us=at_us)
    if not known.runs and at_us - known.resolved_us > rules.reopen_us:
        return _begun(found, at_us, rules)
    again = _found(known, found, at_us, rules)
    if again.state is State.FIRING:
        return replace(again, reopened=known.reopened + 1)
    return replace(known, runs=again.runs, last_run_us=at_us)
