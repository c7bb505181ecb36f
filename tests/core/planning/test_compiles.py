"""Compiles out of the spans of their stages."""

from dataclasses import replace
from typing import Any

from ett_service.core.events import AttemptStarted, Event, JobFacts, SpanOver
from ett_service.core.ledger.fold import fold
from ett_service.core.planning.compiles import Compile, compiles_of
from ett_service.core.words import Outcome, Phase
from tests.core.timeline import SECOND, ended, started

REASON = "0/0: k == 2"


def stage(
    name: str, start_s: float, end_s: float, attributes: dict[str, Any], **members: Any
) -> SpanOver:
    return SpanOver(
        id=f"{name}-{start_s}-{members}",
        at=int(end_s * SECOND),
        start=int(start_s * SECOND),
        phase=Phase.PT2_COMPILE,
        stage=name,
        attributes={"compile_id": "0/0", "direction": "forward", **attributes},
        **members,
    )


def compiles(*spans: SpanOver, more: tuple[Event, ...] = ()) -> list[Compile]:
    events = [started(0), *spans, *more, ended(100, Outcome.COMPLETED)]
    return compiles_of("a", spans, {}, fold(events, {}, 200 * SECOND))


def test_the_stages_of_one_compile_are_one() -> None:
    facts = {
        "function": "forward", "compile_cache": "cold", "varying": ["L['x']:0"],
        "recompile_reason": REASON, "kernels": '[["triton_a", 7]]', "compile_autotune_us": 5,
    }  # fmt: skip
    about = JobFacts(id="job", at=0, model="m")
    of = AttemptStarted(id="code", at=0, code_version="v1")
    (compile_,) = compiles(
        stage("inductor", 2, 5, facts), stage("dynamo", 1, 2, facts), more=(about, of)
    )

    assert compile_ == Compile(
        job="a", model="m", code_version="v1", at=SECOND, compile_id="0/0", function="forward",
        cache="cold", reason=REASON, varying=("L['x']:0",), kernels={"triton_a": 7},
        tuned_inside_us=5, stages_us={"dynamo": SECOND, "inductor": 3 * SECOND},
    )  # fmt: skip
    assert (compile_.us, compile_.autotune_us) == (4 * SECOND, 5)


def test_a_compile_id_that_is_used_again_is_another_compile() -> None:
    first = [stage("dynamo", 1, 2, {}), stage("inductor", 2, 3, {})]
    assert len(compiles(*first, stage("dynamo", 9, 10, {}))) == 2


def test_autotuning_counts_for_the_compile_before_it_however_often() -> None:
    (compile_,) = compiles(
        stage("inductor", 2, 3, {}), stage("autotune", 4, 5, {}), stage("autotune", 6, 8, {})
    )
    assert compile_.autotune_us == 3 * SECOND


def test_a_backward_has_the_reason_of_its_forward() -> None:
    forward = stage("dynamo", 1, 2, {"recompile_reason": REASON, "function": "forward"})
    backward = stage("inductor", 3, 4, {"direction": "backward"})
    other = stage("inductor", 5, 6, {"direction": "backward", "compile_id": "0/1"})

    reasons = [(each.direction, each.reason) for each in compiles(forward, backward, other)]
    assert reasons == [("forward", REASON), ("backward", REASON), ("backward", None)]


def test_processes_are_told_apart() -> None:
    two = [stage("dynamo", 1, 2, {}, producer="p"), stage("inductor", 2, 3, {}, producer="q")]
    assert len(compiles(*two)) == 2


def test_only_the_lead_rank_counts() -> None:
    ranks = [
        stage("dynamo", 1, 2, {}, rank=0),
        stage("dynamo", 1, 2, {}, rank=1),
    ]
    assert len(compiles(*ranks)) == 1


def test_a_compile_is_of_the_attempt_in_which_it_began() -> None:
    second = AttemptStarted(id="second", at=50 * SECOND, attempt=1)
    end = replace(ended(40, Outcome.FAILED), id="first-end")
    (first, later) = compiles(
        stage("dynamo", 1, 2, {}), stage("dynamo", 51, 52, {}, attempt=1), more=(second, end)
    )
    assert (first.attempt, later.attempt) == (0, 1)


def test_spans_and_attributes_of_another_kind_are_left_out() -> None:
    strange = {
        "function": ["f"], "varying": "L['x']", "kernels": "[1]",
        "compile_autotune_us": "9", "recompile_reason": None,
    }  # fmt: skip
    other = replace(stage("dynamo", 1, 2, {}), id="other", phase=Phase.LAUNCHER_INIT)
    unknown = stage("loading", 1, 2, {})
    nameless = stage("dynamo", 3, 4, {"compile_id": 7})
    (compile_,) = compiles(stage("dynamo", 1, 2, strange), other, unknown, nameless)

    assert (compile_.function, compile_.varying) == (None, ())
    assert (dict(compile_.kernels), compile_.autotune_us, compile_.reason) == ({}, 0, None)
