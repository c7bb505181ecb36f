"""What is written is what is read back, in both formats."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.metrics.families import Family, Kind
from ett_service.metrics.text import TextFormat, head, labelled, number

UNIT_OF = {
    "ett_a_seconds_total": "seconds",
    "ett_a_bytes": "bytes",
    "ett_a_ratio": "ratio",
    "ett_a_total": "",
    "ett_seconds_of_a": "",
}


def _gauge(text: str) -> Family:
    return Family("ett_a", Kind.GAUGE, (), text)


def test_help_is_escaped_as_each_format_has_it() -> None:
    family = _gauge('a "b" \\ c\nd')
    assert head(family, TextFormat.PLAIN) == '# HELP ett_a a "b" \\\\ c\\nd\n# TYPE ett_a gauge\n'
    assert head(family, TextFormat.OPENMETRICS) == (
        '# HELP ett_a a \\"b\\" \\\\ c\\nd\n# TYPE ett_a gauge\n'
    )


def test_a_counter_is_named_with_its_suffix_in_the_plain_format_alone() -> None:
    family = Family("ett_a_total", Kind.COUNTER, (), "A.")
    assert "# TYPE ett_a_total counter\n" in head(family, TextFormat.PLAIN)
    assert "# TYPE ett_a counter\n" in head(family, TextFormat.OPENMETRICS)


def test_an_info_is_a_gauge_in_the_plain_format() -> None:
    family = Family("ett_a_info", Kind.INFO, (), "A.")
    assert "# TYPE ett_a_info gauge\n" in head(family, TextFormat.PLAIN)
    assert "# TYPE ett_a info\n" in head(family, TextFormat.OPENMETRICS)


@pytest.mark.parametrize("name", UNIT_OF)
def test_a_unit_is_what_the_name_ends_with_and_for_openmetrics(name: str) -> None:
    family = Family(name, Kind.COUNTER if name.endswith("_total") else Kind.GAUGE, (), "A.")
    lines = head(family, TextFormat.OPENMETRICS).splitlines()
    units = [line.split()[-1] for line in lines if line.startswith("# UNIT")]
    assert units == [UNIT_OF[name]] * bool(UNIT_OF[name])
    assert "UNIT" not in head(family, TextFormat.PLAIN)


def test_labels_are_quoted_and_nothing_stands_for_none() -> None:
    assert labelled((), ()) == ""
    assert labelled(("a", "b"), ('x"\\\n', "{},=")) == '{a="x\\"\\\\\\n",b="{},="}'


def test_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        labelled(("a",), ("x\ud800",))


@given(st.floats())
def test_a_number_is_read_back_as_the_same(value: float) -> None:
    read = float(number(value))
    assert read == value or (math.isnan(read) and math.isnan(value))


def test_what_is_no_finite_number_is_written_as_both_formats_have_it() -> None:
    assert [number(value) for value in (math.inf, -math.inf, math.nan)] == ["+Inf", "-Inf", "NaN"]
    assert [number(value) for value in (60.0, 0.1, 1e22)] == ["60.0", "0.1", "1e+22"]
