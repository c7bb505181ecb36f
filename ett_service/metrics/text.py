"""The text formats of Prometheus and OpenMetrics, and their negotiation."""

from collections.abc import Iterable
from enum import Enum
from math import inf, isfinite, isnan

from ett_service.metrics.families import Family, Kind

_UNITS = ("seconds", "bytes", "ratio")
_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_QUOTED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class TextFormat(Enum):
    """A text format; its value is the media type of the page."""

    PLAIN = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


END = "# EOF\n"
"""The last line in OpenMetrics."""


def head(family: Family, form: TextFormat) -> str:
    """Return the lines above the samples of a family."""
    if form is TextFormat.PLAIN:
        kind = Kind.GAUGE if family.kind is Kind.INFO else family.kind
        text = family.text.translate(_IN_HELP)
        return f"# HELP {family.name} {text}\n# TYPE {family.name} {kind}\n"
    name = family.name.removesuffix("_total").removesuffix("_info")
    unit = name.rpartition("_")[2]
    unit_line = f"# UNIT {name} {unit}\n" if unit in _UNITS else ""
    text = family.text.translate(_QUOTED)
    return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n{unit_line}"


def labelled(names: Iterable[str], values: Iterable[str]) -> str:
    """Return labels as they follow a name; nothing if there are none.

    Raises:
        UnicodeEncodeError: A value has half of a surrogate pair, which UTF-8 cannot hold.
    """
    pairs = zip(names, values, strict=True)
    inside = ",".join(f'{name}="{value.translate(_QUOTED)}"' for name, value in pairs)
    inside.encode()
    return f"{{{inside}}}" if inside else ""


def number(value: float) -> str:
    """Return a number as text from which the same number is read."""
    if isfinite(value):
        return repr(value)
    return "+Inf" if value == inf else "-Inf" if value == -inf else "NaN"


_OPENMETRICS = "application/openmetrics-text"
_PLAIN = ("text/plain", "text/*", "*/*")
_VERSIONS = {None, "0.0.1", "1.0.0"}
"""Of OpenMetrics. Readers of the draft, 0.0.1, take what became 1.0.0."""


def negotiate(accept: str) -> TextFormat:
    """Return the format that the header ``Accept`` prefers; of two equal ones OpenMetrics.

    OpenMetrics has to be named: a reader that accepts anything gets the plain format.
    """
    weights = {TextFormat.OPENMETRICS: 0.0, TextFormat.PLAIN: 0.0}
    for part in accept.split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        values = dict(map(_parameter, parameters))
        if media.lower() == _OPENMETRICS and values.get("version") in _VERSIONS:
            form = TextFormat.OPENMETRICS
        elif media.lower() in _PLAIN:
            form = TextFormat.PLAIN
        else:
            continue
        weights[form] = max(weights[form], _weight(values.get("q", "1")))
    best = weights[TextFormat.OPENMETRICS]
    return (
        TextFormat.OPENMETRICS if best and best >= weights[TextFormat.PLAIN] else TextFormat.PLAIN
    )


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip().strip('"')


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return 0.0 if isnan(weight) else min(max(weight, 0.0), 1.0)
