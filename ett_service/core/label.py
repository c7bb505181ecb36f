"""Label values: words that users made up, made safe for any parser."""

import re

UNKNOWN = "unknown"
OTHER = "other"

_LONGEST = 128
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")


def label(value: str | None) -> str:
    """Return *value* as a label that no parser trips over; ``unknown`` where there is none."""
    if not value:
        return UNKNOWN
    return _UNPRINTABLE.sub("\ufffd", value)[:_LONGEST]
