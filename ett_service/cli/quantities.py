"""Reads numbers as people write them into arguments: durations, shares, large counts."""

import argparse
import math
import re
from decimal import Decimal, InvalidOperation

_DURATION = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\d+)?)([smhd]?)", re.ASCII)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_LARGEST = 10**30


def seconds(text: str) -> float:
    """Read ``90``, ``90s``, ``10m``, ``6h`` or ``1.5d``."""
    told = _DURATION.fullmatch(text)
    length = float(told[1]) * _UNITS[told[2]] if told else math.inf
    if math.isinf(length):
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration, as 90s, 10m, 6h or 1.5d")
    return length


def share(text: str) -> float:
    """Read ``0.42`` or ``42%``."""
    value = _number(text.removesuffix("%"), "a share, as 0.42 or 42%")
    return float(value / 100 if text.endswith("%") else value)


def amount(text: str) -> float:
    """Read a number that is not negative, ``5.04e21`` among others."""
    return float(_number(text, "a number, as 3.5 or 5.04e21"))


def whole(text: str) -> int:
    """Read a whole number from 1, ``7e9`` among others."""
    value = _number(text, "a whole number from 1, as 64 or 7e9")
    if value != value.to_integral_value() or value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1, as 64 or 7e9")
    return int(value)


def wholes(text: str) -> list[int]:
    """Read whole numbers with commas between them: ``1024,16384``."""
    return [whole(part) for part in text.split(",")]


def _number(text: str, what: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if value.is_nan() or not 0 <= value <= _LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value
