"""Compiles out of the spans of their stages."""

from dataclasses import replace
from typing import Any

import pytest

from ett_service.core.events import AttemptStarted, Event, JobFacts, SpanOver
from ett_service.core.ledger.fold import fold
from ett_service.core.planning.compiles import (
    HINTS,
    Compile,
    Source,
    cause_of,
    compiles_of,
    mark_dynamic_line,
    setting_entry,
    source_name,
    source_of,
)
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


@pytest.mark.parametrize(
    ("reason", "source"),
    [
        ("0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6", Source("L['x']", 0)),
        (
            "0/1: tensor 'd['m']' size mismatch at index 2. expected 3, actual 4",
            Source("L['d']['m']", 2),
        ),
        (
            "0/1: tensor 'L['x']' size mismatch at index 1. expected 3, actual 4",
            Source("L['x']", 1),
        ),
        (
            "3/0: tensor 's._buffers['rb']' size mismatch at index 0. expected 3, actual 4",
            Source("L['s']._buffers['rb']", 0),
        ),
        ("0/0: tensor 'x' stride mismatch at index 0. expected 8, actual 16", Source("L['x']")),
        (
            "0/0: tensor 'x' size mismatch at index 0. expected 11, actual 10",
            Source("L['x']", 0),
        ),
        ("0/1: k == 2        # return x * k  # train.py:8 in forward", Source("L['k']")),
        ("0/1: k == -2", Source("L['k']")),
        ("0/0: k == 0", Source("L['k']")),
        ("[0/1]: L['k'] == 3  # y = x", Source("L['k']")),
        ("!0/0/1: lens[0] == 3", Source("L['lens'][0]")),
        ("0/0: G['STEPS'] == 3    # def g(x): return x*STEPS", Source("G['STEPS']")),
        ("0/1: s._modules['sub'].k == 3", Source("L['s']._modules['sub'].k")),
        ("0/1: self.scale == 3", Source("L['self'].scale")),
    ],
)
def test_a_source_that_a_setting_makes_dynamic_is_named_as_torch_asks_for_it(
    reason: str, source: Source
) -> None:
    assert cause_of(reason) == source


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("0/0: tensor 'x' size mismatch at index 0. expected 6, actual 1", "size_0_or_1"),
        ("0/0: tensor 'x' size mismatch at index 0. expected 0, actual 6", "size_0_or_1"),
        ("0/0: 2 <= x.size()[0]  # f(x)", "size_0_or_1"),
        ("0/0: 2 <= x.size()[0] <= 5  # if x.shape[0]>5:", "branch_on_size"),
        ("0/1: 6 <= x.size()[0]  # if x.shape[0]>5: return x*2", "branch_on_size"),
        ("0/1: y.size()[0] == x.size()[0]  # (unknown var s17)", "branch_on_size"),
        ("0/1: x.size()[0] == 8", "branch_on_size"),
        ("0/0: tensor 'x' stride mismatch at index 0. expected 3, actual 1", "stride"),
        ("0/0: tensor 'x' dtype mismatch. expected Float, actual Double", "dtype"),
        ("0/0: tensor 'x' rank mismatch. expected 2, actual 3", "rank"),
        (
            "0/0: tensor 'x' requires_grad mismatch. expected requires_grad=0",
            "requires_grad",
        ),
        ("0/0: k == 0.5     # x * k", "float"),
        ("2/0: self.param_groups[0]['lr'] == 1e-05", "float"),
        ("0/0: k == 'a'     # if k", "constant"),
        ("0/0: k == True    # if k", "constant"),
        ("0/0: k is None    # if k", "constant"),
        ("0/0: len(l) == 1  # sum(l)", "length"),
        ("0/0: len(d) != 1", "length"),
        ("0/0: GLOBAL_STATE changed: grad_mode ", "grad_mode"),
        ("0/0: ___check_obj_id(L['f'], 140)", "object"),
        ("0/0: Cache line invalidated because L['f'] got deallocated", "object"),
        ("0/0: something quite new", "other"),
        ("", "other"),
    ],
)
def test_what_no_dynamic_source_stops_is_known_by_its_kind(reason: str, kind: str) -> None:
    assert cause_of(reason) == kind
    assert kind == "other" or kind in HINTS


def test_a_name_of_a_local_variable_gets_its_source() -> None:
    assert source_name("d['m'].x") == "L['d']['m'].x"
    assert source_name("L['x']") == "L['x']"
    assert source_name("G['x']") == "G['x']"


def test_a_source_that_torch_has_seen_vary_may_have_a_dimension() -> None:
    assert source_of("L['x']:1") == Source("L['x']", 1)
    assert source_of("L['k']") == Source("L['k']")


def test_a_name_with_a_comma_or_a_space_is_written_as_a_pattern() -> None:
    assert setting_entry("L['d']['m']") == "L['d']['m']"
    assert setting_entry("L['d']['a b,c']") == r"L\['d'\]\['a.b.c'\]$"


@pytest.mark.parametrize(
    ("name", "dims", "line"),
    [
        ("L['x']", (0,), "torch._dynamo.mark_dynamic(x, 0)"),
        ("L['d']['m']", (0, 2), "torch._dynamo.mark_dynamic(d['m'], [0, 2])"),
        ("L['self'].mask", (1,), "torch._dynamo.mark_dynamic(self.mask, 1)"),
        ("G['MASK']", (1,), "torch._dynamo.mark_dynamic(MASK, 1)"),
        ("L['k']", (), None),
    ],
)
def test_a_tensor_is_marked_in_the_words_of_the_code(
    name: str, dims: tuple[int, ...], line: str | None
) -> None:
    assert mark_dynamic_line(name, dims) == line
