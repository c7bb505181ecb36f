from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.events import AttemptEnded, AttemptStarted, PhaseStarted
from ett_service.core.ledger.attempt_results import AttemptKey, FailureVerdict, corrected
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import FAILURES, INFRA_ORIGINS, Cause, Origin, Outcome, Phase
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.record import event

FIRST, SECOND_TRY, LAST = (AttemptKey("8041", attempt, 0) for attempt in range(3))
VERDICT = FailureVerdict(
    Origin.INFRA, Cause.NETWORK, "the switch was down", "ett_00000000", NOON + HOUR
)


def thrice() -> JobLedger:
    """A job of three attempts: out of memory, cut off by its user, completed."""
    of_each: list[tuple[int, dict[str, Any]]] = [
        (0, {"outcome": Outcome.FAILED, "cause": Cause.OOM}),
        (1, {"outcome": Outcome.CANCELLED}),
        (2, {"outcome": Outcome.COMPLETED}),
    ]
    events = []
    for number, ending in of_each:
        began = NOON + number * 10 * MINUTE
        named: dict[str, Any] = {"launch": "8041", "attempt": number}
        events += [
            event(AttemptStarted, began, gpus=8, **named),
            event(PhaseStarted, began + MINUTE, phase=Phase.TRAIN_LOOP, **named),
            event(AttemptEnded, began + 5 * MINUTE, **named, **ending),
        ]
    return fold(events, {}, NOON + HOUR)


def test_a_verdict_outranks_the_rules_and_keeps_their_evidence() -> None:
    ledger = thrice()

    judged = corrected(ledger, {FIRST: VERDICT})

    first, *others = judged.attempts
    assert (first.origin, first.cause) == (Origin.INFRA, Cause.NETWORK)
    assert first.verdict is not None
    assert (first.verdict.rules_origin, first.verdict.rules_cause) == (Origin.USER, Cause.OOM)
    assert first.verdict.why == "the switch was down"
    assert first.evidence == ledger.attempts[0].evidence
    assert (ledger.infra_failures, judged.infra_failures) == (0, 1)
    assert tuple(others) == ledger.attempts[1:]


def test_a_verdict_on_what_did_not_fail_or_is_not_there_changes_nothing() -> None:
    ledger = thrice()

    for key in (SECOND_TRY, LAST, AttemptKey("", 0, 0)):
        assert corrected(ledger, {key: VERDICT}) == ledger


def test_without_a_verdict_the_ledger_is_the_same_object() -> None:
    ledger = thrice()
    assert corrected(ledger, {}) is ledger


@given(
    st.dictionaries(
        st.sampled_from([FIRST, SECOND_TRY, LAST]),
        st.builds(
            FailureVerdict,
            st.sampled_from(Origin),
            st.sampled_from(Cause),
            st.just("because"),
            st.just("ett_00000000"),
            st.just(NOON),
        ),
    )
)
def test_only_origins_causes_and_what_counts_them_ever_change(
    verdicts: dict[AttemptKey, FailureVerdict],
) -> None:
    ledger = thrice()

    judged = corrected(ledger, verdicts)

    assert judged.infra_failures == sum(
        attempt.outcome in FAILURES and attempt.origin in INFRA_ORIGINS
        for attempt in judged.attempts
    )
    assert judged.infra_failures == sum(run.infra_failures for run in judged.runs)
    undone = tuple(
        replace(attempt, verdict=None, origin=was.origin, cause=was.cause)
        for attempt, was in zip(judged.attempts, ledger.attempts, strict=True)
    )
    whole = replace(judged, attempts=undone, infra_failures=ledger.infra_failures)
    assert replace(whole, runs=ledger.runs) == ledger
