"""Advice from compiles that are written down here."""

from dataclasses import replace
from typing import Any

import pytest

from ett_service.core.planning.compile_advice import advise
from ett_service.core.planning.compiles import Compile

SIZE = "0/0: tensor 'x' size mismatch at index {}. expected 4, actual 6"
FIRST = Compile(
    job="a", compile_id="0/0", function="forward", stages_us={"dynamo": 10, "inductor": 20}
)
AGAIN = replace(FIRST, compile_id="0/1", at=100, reason=SIZE.format(0))
BACKWARD = replace(AGAIN, direction="backward", at=130, stages_us={"inductor": 5})
COLD = replace(FIRST, cache="cold", code_version="v1", model="m")


def test_recompiles_of_one_source_are_summed_with_their_backwards() -> None:
    other = replace(
        AGAIN, compile_id="0/2", reason=SIZE.format(1), function="resume", job="b", at=200
    )
    advice = advise([FIRST, AGAIN, BACKWARD, other])

    (source,) = advice.sources
    assert (source.source, source.dims) == ("L['x']", (0, 1))
    assert (source.recompiles, source.us, source.jobs) == (2, 65, 2)
    assert source.functions == ("forward", "resume")
    assert source.mark_dynamic == "torch._dynamo.mark_dynamic(x, [0, 1])"
    assert advice.setting == "L['x']"
    assert (advice.compiles, advice.us) == (4, 95)
    assert (advice.recompiles, advice.recompile_us, advice.dynamic_us) == (2, 65, 65)


def test_the_source_that_cost_most_comes_first() -> None:
    count = replace(AGAIN, reason="0/0: k == 2  # x * k", stages_us={"dynamo": 40})
    assert advise([FIRST, AGAIN, count]).setting == "L['k'],L['x']"


def test_what_varied_together_with_the_source_is_a_source_without_recompiles() -> None:
    advice = advise([replace(AGAIN, varying=("L['x']:0", "L['mask']:1", "L['n']"))])

    assert advice.setting == "L['x'],L['mask'],L['n']"
    assert [(each.recompiles, each.us) for each in advice.sources] == [(1, 30), (0, 0), (0, 0)]
    assert [each.dims for each in advice.sources] == [(0,), (1,), ()]
    assert {(each.functions, each.jobs) for each in advice.sources} == {(("forward",), 1)}


def test_what_no_setting_stops_stands_apart_and_names_no_source() -> None:
    dtype = "0/0: tensor 'x' dtype mismatch. expected Float, actual Double"
    longer = replace(AGAIN, reason=dtype + "!", stages_us={"dynamo": 70})
    advice = advise([replace(AGAIN, reason=dtype, varying=("L['x']:0",)), longer])

    assert (advice.sources, advice.setting, advice.dynamic_us) == ([], None, 0)
    (other,) = advice.others
    assert (other.kind, other.recompiles, other.us) == ("dtype", 2, 100)
    assert other.example == dtype + "!"
    assert other.hint == "Convert to one dtype before the call."


def test_autotuning_is_summed_by_frame_with_the_slowest_kernels() -> None:
    tuned = replace(FIRST, stages_us={"inductor": 9, "autotune": 5}, tuned_inside_us=3)
    named = replace(tuned, kernels={"fast": 1, "slow": 8})
    advice = advise([tuned, named, replace(FIRST, compile_id="1/0")])

    (row,) = advice.autotuned
    assert (row.compile_id, row.compiles, row.us) == ("0/0", 2, 16)
    assert row.kernels == ("slow", "fast")
    assert advice.autotune_us == 16


def test_a_cold_compile_of_a_later_attempt_could_have_been_loaded() -> None:
    again = replace(COLD, attempt=1, at=1_000, stages_us={"dynamo": 10, "inductor": 20})
    advice = advise([COLD, again])

    (row,) = advice.uncached
    assert (row.function, row.compiles, row.us, row.jobs) == ("forward", 1, 20, 1)
    assert advice.uncached_us == 20


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": 0},
        {"cache": "warm"},
        {"cache": None},
        {"code_version": "v2"},
        {"compile_id": "1/0"},
        {"direction": "backward"},
        {"function": "other"},
        {"job": "b"},
    ],
)
def test_a_compile_could_not_be_loaded_if_it_is_new_warm_or_of_other_code(
    change: dict[str, Any],
) -> None:
    again = replace(COLD, **{"attempt": 1, "at": 1_000, **change})
    assert advise([COLD, again]).uncached_us == 0


def test_compiles_before_a_window_fill_the_cache_but_are_not_counted() -> None:
    again = replace(COLD, attempt=1, at=1_000)
    advice = advise([again], before=[COLD])
    assert (advice.compiles, advice.uncached_us) == (1, 20)


def test_a_cache_serves_later_jobs_of_one_model_and_code_version_in_a_fleet() -> None:
    later = replace(COLD, job="b", at=1_000)
    assert advise([COLD, later], across_jobs=True).uncached_us == 20
    for former, latter in (
        (COLD, replace(later, model="n")),
        (replace(COLD, model=None), replace(later, model=None)),
        (replace(COLD, code_version=None), replace(later, code_version=None)),
    ):
        assert advise([former, latter], across_jobs=True).uncached_us == 0


def test_no_compiles_give_no_advice() -> None:
    advice = advise([])
    assert (advice.compiles, advice.setting, advice.autotuned, advice.uncached) == (0, None, [], [])
