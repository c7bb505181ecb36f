"""The names that the service exposes."""

import pytest

from ett_service.metrics.families import COUNTERS, GAUGES, OWN, Family, Kind
from ett_service.metrics.text import TextFormat, head
from tests.builders.metrics import families, lint

EVERY = (*COUNTERS, *GAUGES, *OWN)
BY_NAME = {family.name: family for family in EVERY}


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
