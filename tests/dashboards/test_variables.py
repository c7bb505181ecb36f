"""Variables get their values; what is Grafana's or PromQL's own stays."""

import pytest

from dashboards.build.variables import filled, variables_in


def test_each_way_to_write_a_variable_is_filled() -> None:
    text = 'a{b="$job",c=~"${cluster}"}[${window:raw}]'
    assert filled(text, {"job": "x", "cluster": ".+", "window": "5m"}) == 'a{b="x",c=~".+"}[5m]'
    assert variables_in(text) == {"job", "cluster", "window"}


def test_a_group_of_an_expression_and_a_macro_are_no_variables() -> None:
    text = 'label_replace(x, "a", "$1", "b", "(.+)") $__timeFilter(at)'
    assert filled(text, {}) == text


def test_a_variable_without_a_value_is_named() -> None:
    with pytest.raises(KeyError, match="cohort"):
        filled("$cohort", {})
