"""Gauges: whatever was published, the rest of the page stands."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.metrics.families import GAUGES, TextFormat
from ett_service.metrics.page import GaugesWriter
from ett_service.storage.metrics.counters import GaugeSamples
from tests.builders.metrics import labelled, parsed

RUNNING = "ett_attempts_running"
WHOLE = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("form", TextFormat)
@given(values=st.dictionaries(st.tuples(WHOLE, WHOLE), st.floats(allow_nan=False)))
def test_any_label_and_value_is_read_back_as_written(
    form: TextFormat, values: dict[tuple[str, str], float]
) -> None:
    text, left_out = GaugesWriter(form).write({RUNNING: list(values.items())})
    expected = {labelled(cluster=a, cohort=b): value for (a, b), value in values.items()}
    assert parsed(text, form).get(RUNNING, {}) == expected
    assert left_out == 0


@pytest.mark.parametrize(
    "odd",
    [
        {RUNNING: [(("a", "b"), math.nan)]},
        {RUNNING: [(("a", "\ud800"), 1.0)]},
        {RUNNING: [(("a",), 1.0)]},
        {RUNNING: [(("a", "b", "c"), 1.0)]},
        {RUNNING: [(("good", "one"), 2.0)]},
        {"ett_made_up": [((), 1.0)]},
        {"ett_phase_seconds_total": [(("a", "b", "train_loop"), 1.0)]},
    ],
)
@pytest.mark.parametrize("form", TextFormat)
def test_what_cannot_be_shown_is_left_out_and_counted(
    odd: dict[str, GaugeSamples], form: TextFormat
) -> None:
    good = [(("good", "one"), 1.0), (("good", "two"), 2.0)]
    gauges = {**odd, RUNNING: [*good, *odd.get(RUNNING, ())]}
    writer = GaugesWriter(form)
    for _ in range(2):  # with nothing known, and with what the first time left behind
        text, left_out = writer.write(gauges)
        assert parsed(text, form) == {
            RUNNING: {labelled(cluster=a, cohort=b): value for (a, b), value in good}
        }
        assert left_out == 1


def test_values_change_under_labels_that_stay() -> None:
    writer = GaugesWriter(TextFormat.PLAIN)
    for value in (1.0, 2.5, math.inf):
        text, _ = writer.write({RUNNING: [(("a", "b"), value)]})
        assert parsed(text) == {RUNNING: {labelled(cluster="a", cohort="b"): value}}
    text, _ = writer.write({})
    assert parsed(text) == {}


def test_every_family_of_gauges_is_headed_once() -> None:
    text, _ = GaugesWriter(TextFormat.PLAIN).write({})
    headed = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert headed == [family.name for family in GAUGES]
