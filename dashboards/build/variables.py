"""Puts values in place of Grafana's variables, as Grafana does before it asks."""

import re
from collections.abc import Mapping

_VARIABLE = re.compile(
    r"\$(?:\{(?P<braced>[A-Za-z_]\w*)(?::\w+)?\}|(?P<plain>[A-Za-z_]\w*)\b(?!\())"
)


def variables_in(text: str) -> frozenset[str]:
    """Return the names of the variables that *text* uses, Grafana's own (``__...``) too."""
    return frozenset(hit["braced"] or hit["plain"] for hit in _VARIABLE.finditer(text))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return *text* with each variable's value in its place.

    Raises ``KeyError`` for one that has none. Grafana's SQL macros, such as
    ``$__timeFilter(...)``, are no variables: PostgreSQL's plugin expands them.
    """
    return _VARIABLE.sub(lambda hit: values[hit["braced"] or hit["plain"]], text)
