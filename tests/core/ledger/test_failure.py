"""Which evidence decides, whatever the order in which it came."""

from hypothesis import assume, given
from hypothesis import strategies as st

from ett_service.core.events import AttemptEnded
from ett_service.core.failures.rule import Strength
from ett_service.core.failures.rules import RULES
from ett_service.core.ledger.attempt_results import Classification, classify
from ett_service.core.words import Cause, Origin, Outcome

SECOND = 1_000_000


def ended(  # noqa: PLR0913 -- the members of the event
    at_second: float = 0,
    *,
    rank: int | None = None,
    outcome: Outcome = Outcome.FAILED,
    exit_code: int | None = None,
    signal: int | None = None,
    exception: str | None = None,
    message: str | None = None,
    scheduler_state: str | None = None,
    origin: Origin | None = None,
    cause: Cause | None = None,
) -> AttemptEnded:
    at = int(at_second * SECOND)
    return AttemptEnded(
        id=f"{at}-{rank}-{exit_code}-{signal}-{exception}-{message}-{scheduler_state}",
        at=at,
        rank=rank,
        outcome=outcome,
        exit_code=exit_code,
        signal=signal,
        exception=exception,
        message=message,
        scheduler_state=scheduler_state,
        origin=origin,
        cause=cause,
    )


def judged(*events: AttemptEnded) -> Classification:
    first = min(events, key=lambda event: (event.at, event.id))
    return classify(first.outcome, first, [(event.at, event) for event in events])


def test_the_rank_that_ran_out_of_memory_is_named_though_others_noticed_before() -> None:
    verdict = judged(
        ended(9.9, rank=0, exception="DistBackendError", message="NCCL communicator was aborted"),
        ended(9.95, rank=1, message="Connection reset by peer"),
        ended(10, rank=3, exception="torch.OutOfMemoryError", message="CUDA out of memory."),
        ended(12, rank=2, exit_code=143),
    )

    assert (verdict.origin, verdict.cause) == (Origin.USER, Cause.OOM)
    assert verdict.evidence.rule == "gpu_out_of_memory"
    assert verdict.evidence.text == "torch.OutOfMemoryError: CUDA out of memory."
    assert verdict.evidence.event_id is not None
    assert verdict.evidence.event_id.startswith("10000000-3-")


def test_of_two_errors_that_both_begin_something_the_earlier_decides() -> None:
    ecc = ended(5, rank=7, message="NVRM: Xid (PCI:0000:3b:00): 94, Contained ECC error")
    crash = ended(6, rank=1, exception="ValueError", message="expected 4 dimensions, got 3")

    assert judged(ecc, crash).cause is Cause.GPU_MEMORY
    later_ecc = ended(7, rank=7, message=ecc.message)
    assert judged(later_ecc, crash).cause is Cause.USER_CODE


def test_a_plain_exit_comes_before_the_echo_that_follows_it() -> None:
    verdict = judged(
        ended(1, rank=3, exit_code=1), ended(2, rank=0, message="Connection closed by peer")
    )

    assert verdict.evidence.rule == "exit_1"
    assert verdict.evidence.text == "exit_code=1"


def test_the_ranks_that_were_terminated_say_nothing_about_the_cause() -> None:
    verdict = judged(ended(1, rank=0, signal=15), ended(2, rank=5, exit_code=139))

    assert verdict.evidence.rule == "native_crash"


def test_a_kill_from_outside_is_not_blamed_on_anyone() -> None:
    for evidence in (ended(exit_code=137), ended(exit_code=-9), ended(signal=9)):
        verdict = judged(evidence)

        assert (verdict.origin, verdict.cause) == (Origin.UNKNOWN, Cause.UNKNOWN)
        assert verdict.evidence.rule == "killed"


def test_the_state_of_the_scheduler_explains_why_a_process_was_killed() -> None:
    verdict = judged(ended(1, rank=0, signal=9), ended(3, scheduler_state="OUT_OF_MEMORY"))

    assert (verdict.cause, verdict.evidence.rule) == (Cause.OOM, "slurm_out_of_memory")
    assert verdict.evidence.text == "scheduler_state=OUT_OF_MEMORY"


def test_what_was_reported_stands_against_every_rule() -> None:
    attempt_ended = ended(
        1, message="CUDA out of memory", origin=Origin.INFRA, cause=Cause.SCHEDULER_TIMEOUT
    )
    verdict = judged(attempt_ended)

    assert (verdict.origin, verdict.cause) == (Origin.INFRA, Cause.SCHEDULER_TIMEOUT)
    assert verdict.evidence.rule == "reported"


def test_a_reported_cause_brings_its_own_origin() -> None:
    assert judged(ended(cause=Cause.GPU_MEMORY)).origin is Origin.INFRA
    assert judged(ended(cause=Cause.UNKNOWN, exit_code=139)).cause is Cause.UNKNOWN


def test_a_reported_origin_leaves_the_cause_to_the_rules() -> None:
    verdict = judged(ended(origin=Origin.USER, scheduler_state="NODE_FAIL"))
    assert (verdict.origin, verdict.cause) == (Origin.USER, Cause.HOST)

    bare = judged(ended(origin=Origin.USER))
    assert (bare.origin, bare.cause, bare.evidence.rule) == (
        Origin.USER,
        Cause.UNKNOWN,
        "reported",
    )


def test_a_preempted_attempt_is_the_schedulers_whatever_else_was_reported() -> None:
    verdict = judged(
        ended(outcome=Outcome.PREEMPTED, origin=Origin.USER, cause=Cause.OOM, exit_code=1)
    )

    assert (verdict.origin, verdict.cause) == (Origin.PREEMPTION, Cause.PREEMPTION)


def test_an_attempt_of_which_nothing_more_was_heard_lost_contact() -> None:
    verdict = classify(Outcome.LOST, None, [])

    assert (verdict.origin, verdict.cause) == (Origin.UNKNOWN, Cause.LOST_CONTACT)
    assert verdict.evidence.rule == "none"


def test_a_failure_without_evidence_is_unknown() -> None:
    verdict = judged(ended())

    assert (verdict.origin, verdict.cause) == (Origin.UNKNOWN, Cause.UNKNOWN)
    assert verdict.evidence.rule == "none"


def test_only_the_line_that_decided_is_kept_of_a_long_message() -> None:
    log = "\n".join(["step 1"] * 500 + ["x" * 500 + " No space left on device"] + ["bye"] * 500)
    text = judged(ended(message=log)).evidence.text

    assert "No space left on device" in text
    assert "step" not in text
    assert len(text) <= 200


endings = st.builds(
    ended,
    st.integers(0, 3),
    rank=st.none() | st.integers(0, 2),
    exit_code=st.none() | st.sampled_from([0, 1, 3, 134, 137, 139, 143, -9]),
    signal=st.none() | st.sampled_from([6, 9, 11, 15]),
    exception=st.none() | st.sampled_from(["ValueError", "torch.OutOfMemoryError", "Odd"]),
    message=st.none()
    | st.sampled_from(["Connection reset by peer", "No space left on device", "hello"]),
    scheduler_state=st.none() | st.sampled_from(["FAILED", "TIMEOUT", "CANCELLED by 0"]),
)


@given(
    st.lists(endings, min_size=1, max_size=5).flatmap(
        lambda e: st.tuples(st.just(e), st.permutations(e))
    )
)
def test_permuting_the_evidence_changes_nothing(
    drawn: tuple[list[AttemptEnded], list[AttemptEnded]],
) -> None:
    events, shuffled = drawn

    assert judged(*events) == judged(*shuffled)
    assert judged(*events, *shuffled) == judged(*events)


@given(st.lists(endings, min_size=1, max_size=5), st.integers(0, 3))
def test_what_only_tears_down_never_changes_a_verdict(
    events: list[AttemptEnded], second: int
) -> None:
    first = min(events, key=lambda event: (event.at, event.id))
    evidence = [(event.at, event) for event in events]
    verdict = classify(first.outcome, first, evidence)
    strength = {rule.name: rule.strength for rule in RULES}.get(verdict.evidence.rule)
    assume(strength is not None and strength < Strength.TEARDOWN)

    noise = ended(second, rank=9, signal=15)

    assert classify(first.outcome, first, [*evidence, (noise.at, noise)]) == verdict
