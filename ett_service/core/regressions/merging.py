"""The step that a whole run takes: of each finding, and of those that are one change.

Of two findings that report the same change one goes on: what fires keeps others from beginning,
absorbs what fired apart, and takes in the incident that it looked like at first.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ett_service.core.regressions.finding import (
    Finding,
    Resolution,
    Series,
    State,
    Verdict,
    absorbers,
    absorbs,
)
from ett_service.core.regressions.state import (
    LASTING,
    FindingKey,
    FindingState,
    StateRules,
    resolved,
    step,
)


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
