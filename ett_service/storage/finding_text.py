"""Findings and attributions as JSON in the database."""

import json
import math
from typing import Any

import msgspec

from ett_service.core.regression import Attribution, Finding


def encode(value: Any) -> str:
    """Write a dataclass, or what is made of them, as JSON."""
    told = _speakable(msgspec.to_builtins(value))
    return json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def finding(text: str) -> Finding:
    """Read a finding back."""
    return msgspec.json.decode(text, type=Finding, strict=False)


def attribution(text: str) -> Attribution:
    """Read an attribution back."""
    return msgspec.json.decode(text, type=Attribution, strict=False)


def _speakable(value: Any) -> Any:
    """Write numbers that JSON has no word for as text, which readers take for numbers again."""
    if isinstance(value, dict):
        return {name: _speakable(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_speakable(member) for member in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
