"""The text formats of Prometheus and OpenMetrics, and which one a reader gets."""

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
    """Return the lines that stand above the samples of a family."""
    if form is TextFormat.PLAIN:
        kind = Kind.GAUGE if family.kind is Kind.INFO else family.kind
        text = family.text.translate(_IN_HELP)
        return f"# HELP {family.name} {text}\n# TYPE {family.name} {kind}\n"
    name = family.name.removesuffix("_total").removesuffix("_info")
    unit = name.rpartition("_")[2]
    said = f"# UNIT {name} {unit}\n" if unit in _UNITS else ""
    text = family.text.translate(_QUOTED)
    return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n{said}"


def labelled(names: Iterable[str], values: Iterable[str]) -> str:
    """Write labels as they stand behind a name; nothing where there are none.

    Raises:
        UnicodeEncodeError: A value has half of a surrogate pair, which no page can hold.
    """
    pairs = zip(names, values, strict=True)
    inside = ",".join(f'{name}="{value.translate(_QUOTED)}"' for name, value in pairs)
    inside.encode()
    return f"{{{inside}}}" if inside else ""


def number(value: float) -> str:
    """Write a number so that it is read back as the same."""
    if isfinite(value):
        return repr(value)
    return "+Inf" if value == inf else "-Inf" if value == -inf else "NaN"


_OPENMETRICS = "application/openmetrics-text"
_PLAIN = ("text/plain", "text/*", "*/*")
_VERSIONS = {None, "0.0.1", "1.0.0"}
"""Of OpenMetrics. Readers of the draft, 0.0.1, take what became 1.0.0."""


def negotiate(accept: str) -> TextFormat:
    """Return the format that the header ``Accept`` likes best; of two alike OpenMetrics.

    OpenMetrics has to be named: who takes anything gets what everything can read.
    """
    liked = {TextFormat.OPENMETRICS: 0.0, TextFormat.PLAIN: 0.0}
    for part in accept.split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        given = dict(_parameter(one) for one in parameters)
        if media.lower() == _OPENMETRICS and given.get("version") in _VERSIONS:
            form = TextFormat.OPENMETRICS
        elif media.lower() in _PLAIN:
            form = TextFormat.PLAIN
        else:
            continue
        liked[form] = max(liked[form], _weight(given.get("q", "1")))
    best = liked[TextFormat.OPENMETRICS]
    return TextFormat.OPENMETRICS if best and best >= liked[TextFormat.PLAIN] else TextFormat.PLAIN


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip().strip('"')


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return 0.0 if isnan(weight) else min(max(weight, 0.0), 1.0)
