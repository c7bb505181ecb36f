"""Which text format a reader of the page gets."""

from math import isnan

from ett_service.exposition.notation import Form

_OPENMETRICS = "application/openmetrics-text"
_PLAIN = ("text/plain", "text/*", "*/*")
_VERSIONS = {None, "0.0.1", "1.0.0"}
"""Of OpenMetrics. Readers of the draft, 0.0.1, take what became 1.0.0."""


def chosen(accept: str) -> Form:
    """Return the format that the header ``Accept`` likes best; of two alike OpenMetrics.

    OpenMetrics has to be named: who takes anything gets what everything can read.
    """
    liked = {Form.OPENMETRICS: 0.0, Form.PLAIN: 0.0}
    for part in accept.split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        given = dict(_parameter(one) for one in parameters)
        if media.lower() == _OPENMETRICS and given.get("version") in _VERSIONS:
            form = Form.OPENMETRICS
        elif media.lower() in _PLAIN:
            form = Form.PLAIN
        else:
            continue
        liked[form] = max(liked[form], _weight(given.get("q", "1")))
    best = liked[Form.OPENMETRICS]
    return Form.OPENMETRICS if best and best >= liked[Form.PLAIN] else Form.PLAIN


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip().strip('"')


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return 0.0 if isnan(weight) else min(max(weight, 0.0), 1.0)
