"""SQL is written out as Grafana writes it: values quoted, macros expanded."""

import pytest

from dashboards.build.macros import ALL, written_out

FROM_US = 1_772_323_200_123_000
TO_US = 1_772_409_600_000_000


def written(sql: str, **chosen: str | list[str]) -> str:
    return written_out(sql, chosen, FROM_US, TO_US)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("nlp", "'nlp'"),
        (["nlp", "vision"], "'nlp','vision'"),
        ("it's", "'it''s'"),
        ("'; DROP TABLE job; --", "'''; DROP TABLE job; --'"),
        (ALL, "NULL"),
    ],
)
def test_what_was_chosen_is_quoted(chosen: str | list[str], expected: str) -> None:
    assert written("team IN (${team:sqlstring})", team=chosen) == f"team IN ({expected})"


@pytest.mark.parametrize(
    ("macro", "expected"),
    [
        ("$__unixEpochNanoFrom() / 1000", "1772323200123000000 / 1000"),
        ("$__unixEpochNanoTo()", "1772409600000000000"),
        ("$__timeGroupAlias(at, '1h')", 'floor(extract(epoch from at)/3600)*3600 AS "time"'),
        ("$__timeGroupAlias(at,'1d')", 'floor(extract(epoch from at)/86400)*86400 AS "time"'),
    ],
)
def test_a_macro_is_expanded_as_in_grafana(macro: str, expected: str) -> None:
    assert written(f"SELECT {macro}") == f"SELECT {expected}"


def test_an_unquoted_variable_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing quotes it"):
        written("team = ${team}", team="nlp")


def test_a_macro_that_grafana_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown macro '__timeFilters'"):
        written("WHERE $__timeFilters(at)")


def test_a_variable_without_a_value_is_refused() -> None:
    with pytest.raises(KeyError):
        written("team IN (${team:sqlstring})")
