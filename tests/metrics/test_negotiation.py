"""Who asks for OpenMetrics gets it, and everybody else what everything can read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.metrics.families import TextFormat, negotiate

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;"
    "escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
TEXT_FIRST = "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5"


@pytest.mark.parametrize(
    "accept",
    [
        PROMETHEUS_2,
        PROMETHEUS_3,
        "application/openmetrics-text",
        'Application/OpenMetrics-Text; Version="1.0.0"',
        "text/plain, application/openmetrics-text",
        "application/openmetrics-text; version=0.0.1",
    ],
)
def test_openmetrics_goes_to_who_names_it(accept: str) -> None:
    assert negotiate(accept) is TextFormat.OPENMETRICS


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "text/plain",
        TEXT_FIRST,
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;q=x",
        "application/openmetrics-text;q=nan, */*",
        "application/openmetrics-text; version=2.0.0",
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily",
    ],
)
def test_everybody_else_gets_plain_text(accept: str) -> None:
    assert negotiate(accept) is TextFormat.PLAIN


@given(st.text(st.sampled_from('application/openmetrics-text;,=q10.* "\\é'), max_size=80))
def test_no_header_is_too_odd(accept: str) -> None:
    assert negotiate(accept) in TextFormat
