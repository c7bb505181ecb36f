"""Instants as senders write them: RFC 3339, with an offset, up to microseconds."""

import re
from datetime import UTC, datetime

from ett_service.ingest.refusal import Code, Fault

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US

_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:)(\d\d)(\.\d{1,6})?([Zz]|[+-]\d\d:[0-5]\d)?", re.ASCII
)


def parse_instant(text: str) -> int:
    """Return microseconds since the Unix epoch.

    A leap second is the first second of the minute after it, as clocks count that know none; one
    elsewhere than at the end of a UTC day's last minute is none. Raises ``Fault``.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise Fault(Code.BAD_TIMESTAMP)
    if match[4] is None:
        raise Fault(Code.TIMESTAMP_WITHOUT_OFFSET)
    if match[2] == "60":
        return _leap(match)
    return _microseconds(text.upper())


def _microseconds(text: str) -> int:
    try:
        since = datetime.fromisoformat(text) - _EPOCH
    except ValueError as error:
        raise Fault(Code.TIMESTAMP_OUT_OF_RANGE) from error
    return since.days * _DAY_US + since.seconds * _SECOND_US + since.microseconds


def _leap(match: re.Match[str]) -> int:
    second_before = f"{match[1]}59{match[3] or ''}{match[4]}".upper()
    us = _microseconds(second_before) + _SECOND_US
    if us % _DAY_US >= _SECOND_US:
        raise Fault(Code.TIMESTAMP_OUT_OF_RANGE)
    return us
