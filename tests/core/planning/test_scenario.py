"""A scenario is read from one line; an unreadable line is refused with what is allowed."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.planning.scenario import (
    CUTTABLE,
    CutCategory,
    CutFailures,
    CutStage,
    Scenario,
    UnreadableScenario,
    parse,
)
from ett_service.core.words import Category, Cause, Origin, Phase

_shares = st.integers(1, 10_000).map(lambda part: Fraction(part, 10_000))
_scenarios = st.one_of(
    st.builds(
        CutCategory, st.sampled_from(sorted({*Category} - {Category.EFFECTIVE_TRAINING})), _shares
    ),
    st.builds(CutStage, st.sampled_from(CUTTABLE), st.from_regex(r"\A\w{1,9}\Z"), _shares),
    st.builds(CutFailures, st.sampled_from([None, *Origin]), st.none(), _shares),
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("cut pt2_compile by 40 %", CutCategory(Category.PT2_COMPILE, Fraction(2, 5))),
        ("Cut  Restart_Wait by 12.5%", CutCategory(Category.RESTART_WAIT, Fraction(1, 8))),
        ("halve evaluation", CutCategory(Category.EVALUATION, Fraction(1, 2))),
        ("halve infra failures", CutFailures(Origin.INFRA, None, Fraction(1, 2))),
        ("cut network failures by 100 percent", CutFailures(None, Cause.NETWORK, Fraction(1))),
        ("cut all failures by 10 %", CutFailures(None, None, Fraction(1, 10))),
        (
            "cut stage launcher_init/Mine by 25 %",
            CutStage(Phase.LAUNCHER_INIT, "Mine", Fraction(1, 4)),
        ),
        ("publish off the GPUs", CutStage(Phase.SHUTDOWN, "model_publish", Fraction(1))),
    ],
)
def test_each_form_is_read(text: str, meant: Scenario) -> None:
    assert parse(text) == meant


@given(_scenarios)
def test_the_text_of_a_scenario_reads_back_as_the_same(scenario: Scenario) -> None:
    assert parse(scenario.text) == scenario


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cut CATEGORY by N %"),
        ("make it faster", "publish off the GPUs"),
        ("cut pt2_compile", "cut CATEGORY by N %"),
        ("cut pt2_compile by -1 %", "cut CATEGORY by N %"),
        ("cut pt2_compile by 0 %", "more than 0 %"),
        ("cut pt2_compile by 101 %", "100 % at most"),
        ("cut effective_training by 1 %", "one of: scheduling, hardware_setup"),
        ("halve luck", "unattributed"),
        ("cut stage dynamo by 5 %", "PHASE/STAGE"),
        ("cut stage train_loop/forward by 5 %", "one of: scheduling, hardware_setup"),
        ("halve cosmic failures", "gpu_memory"),
    ],
)
def test_an_unreadable_line_is_refused_with_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(UnreadableScenario, match=message) as refused:
        parse(text)
    assert "cosmic" not in str(refused.value)


def test_a_word_that_names_an_origin_and_a_cause_is_the_origin() -> None:
    assert parse("halve preemption failures") == CutFailures(
        Origin.PREEMPTION, None, Fraction(1, 2)
    )
