"""The names that the service exposes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.metrics.families import (
    COUNTERS,
    GAUGES,
    OWN,
    Family,
    Kind,
    TextFormat,
    head,
    labelled,
    number,
)
from tests.builders.metrics import families, lint

EVERY = (*COUNTERS, *GAUGES, *OWN)
BY_NAME = {family.name: family for family in EVERY}

UNIT_OF = {
    "ett_a_seconds_total": "seconds",
    "ett_a_bytes": "bytes",
    "ett_a_ratio": "ratio",
    "ett_a_total": "",
    "ett_seconds_of_a": "",
}


def test_no_two_families_share_a_name() -> None:
    assert len(BY_NAME) == len(EVERY)


@pytest.mark.parametrize("name", BY_NAME)
def test_no_label_is_one_that_scraping_owns(name: str) -> None:
    assert not set(BY_NAME[name].labels) & {"job", "instance", "le", "quantile", "pod"}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_ends_as_its_kind_asks_for(name: str) -> None:
    ends = {Kind.COUNTER: "_total", Kind.INFO: "_info", Kind.HISTOGRAM: "_seconds"}
    kind = BY_NAME[name].kind
    assert name.startswith("ett_")
    if kind in ends:
        assert name.endswith(ends[kind])
    else:
        assert not name.endswith(("_total", "_info", "_count", "_sum", "_bucket"))


def test_histograms_that_are_published_have_bounds_and_nothing_else_has() -> None:
    bounded = [family.name for family in (*COUNTERS, *GAUGES) if family.bounds_us]
    histograms = [family.name for family in COUNTERS if family.kind is Kind.HISTOGRAM]
    assert bounded == histograms


def _sampled(family: Family, form: TextFormat) -> str:
    labels = ",".join(f'{name}="x"' for name in family.labels)
    shown = f"{{{labels}}}" if labels else ""
    return f"{head(family, form)}{family.name}{shown} 1\n"


@pytest.mark.parametrize(
    "name", [family.name for family in EVERY if family.kind is not Kind.HISTOGRAM]
)
def test_names_kinds_and_units_are_as_openmetrics_asks(name: str) -> None:
    (read,) = families(_sampled(BY_NAME[name], TextFormat.OPENMETRICS), TextFormat.OPENMETRICS)
    assert read.type == BY_NAME[name].kind
    assert read.documentation == BY_NAME[name].text


def test_promtool_finds_nothing_to_say_about_names_and_texts() -> None:
    simple = (family for family in EVERY if family.kind is not Kind.HISTOGRAM)
    page = "".join(_sampled(family, TextFormat.PLAIN) for family in simple)
    assert lint(page.encode()) == ""


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
