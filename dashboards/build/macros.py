"""Expands SQL as Grafana's PostgreSQL datasource does before it queries the database.

Grafana does it in two places: pages put the values of variables in, its backend then expands the
macros. Only the formats and macros that the dashboards use are known here.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from dashboards.build.sql.scope import EVERYTHING

ALL = "$__all"
"""The value of a variable for which every one was chosen."""

_VARIABLE = re.compile(r"\$\{(\w+)(?::(\w+))?\}")
_MACRO = re.compile(r"\$([_a-zA-Z0-9]+)\(([^)]*)\)")
_INTERVALS_S = {"'1h'": 3600, "'1d'": 86400}

Chosen = str | Sequence[str]


def written_out(sql: str, chosen: Mapping[str, Chosen], from_us: int, to_us: int) -> str:
    """Return *sql* with the *chosen* values, for the range between two instants.

    Instants are microseconds since 1970. Grafana's are of milliseconds, so these are cut to them.

    Raises:
        ValueError: A variable is not written ``${name:sqlstring}``, or a macro is unknown.
        KeyError: A variable has no value.
    """
    filled = _VARIABLE.sub(lambda hit: _quoted(hit[1], hit[2], chosen[hit[1]]), sql)
    span = (from_us // 1000, to_us // 1000)
    return _MACRO.sub(lambda hit: _expanded(hit[1], hit[2], span), filled)


def _quoted(name: str, form: str | None, value: Chosen) -> str:
    if form != "sqlstring":
        raise ValueError(f"${{{name}}} has to be written ${{{name}:sqlstring}}: nothing quotes it")
    if value == ALL:
        return EVERYTHING
    values = [value] if isinstance(value, str) else value
    return ",".join(f"'{_escaped(text)}'" for text in values)


def _escaped(text: str) -> str:
    return text.replace("'", "''").replace('"', '\\"')


def _expanded(name: str, arguments: str, span: tuple[int, int]) -> str:
    macro = _MACROS.get(name)
    if macro is None:
        raise ValueError(f"unknown macro {name!r}")
    return macro([each.strip() for each in arguments.split(",")], *span)


def _grouped(column: str, interval: str) -> str:
    seconds = _INTERVALS_S[interval]
    return f'floor(extract(epoch from {column})/{seconds})*{seconds} AS "time"'


_MACROS: Mapping[str, Callable[[Sequence[str], int, int], str]] = {
    "__timeGroupAlias": lambda given, _, __: _grouped(*given),
    "__unixEpochNanoFrom": lambda _, low, __: str(low * 1_000_000),
    "__unixEpochNanoTo": lambda _, __, high: str(high * 1_000_000),
}
