"""What of a recording may differ from run to run, and what of it is wording.

Numbers are rounded to nine digits: the last ones of a float are the processor's.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

VOLATILE: Mapping[str, str] = {
    "batch_id": "drawn by the server",
    "store_epoch": "drawn when the database is made",
    "key": "drawn, and shown once",
    "secret": "likewise",
    "prefix": "the beginning of a key, which is drawn",
    "replaced_by": "likewise",
    "last_used_at": "written at times, and so either null or an instant",
    "took_seconds": "measured",
    "telemetry_seconds": "measured",
    "loop_seconds": "measured",
}
"""Members whose values are recorded as their names alone, each with its reason."""

PATTERNS: Mapping[str, str] = {
    r"127\.0\.0\.1:\d+": "<address>",  # a free port
    r"within \d+\.\d\d s": "within <measured> s",  # the time of a try
    r"2026-03-09T06:00:(?!00)\d\d\.\d{6}Z": "<measured>",  # the clock less what a try took
}
"""Texts that are replaced wherever they stand."""

UNORDERED = frozenset({"keys", "mutes"})
"""Lists in the order of what is drawn: they are recorded in that of their content."""

PROSE: Mapping[str, str] = {
    "allowed": "pointer",
    "associated_with": "how_much",
    "assumption": "",
    "assumptions": "",
    "cost": "how_much",
    "description": "",
    "detail": "",
    "fallbackText": "",
    "how_much": "what",
    "more": "how_much",
    "note": "",
    "outcome": "delivered",
    "sentence": "",
    "since": "how_much",
    "summary": "",
    "text": "",
    "title": "type",
    "what": "how_much",
}
"""Members that hold sentences, compared apart from the data; some only beside another member."""

PROSE_LISTS = frozenset({"assumptions"})
"""Those that hold several sentences."""

_SHOWN = 3
_SCALARS_SHOWN = 60
_LINE = 100
_DIGITS = 9

Json = Any


def steady(value: Json, drawn: Mapping[str, str] = MappingProxyType({})) -> Json:
    """Return *value* without what differs from run to run; *drawn* names what was drawn."""
    if isinstance(value, dict):
        return {name: _steady_member(name, item, drawn) for name, item in value.items()}
    if isinstance(value, list):
        return [steady(item, drawn) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    return steady_text(value, drawn) if isinstance(value, str) else value


def _steady_member(name: str, item: Json, drawn: Mapping[str, str]) -> Json:
    if name in VOLATILE and item is not None:
        return f"<{name}>"
    result = steady(item, drawn)
    is_unordered = name in UNORDERED and isinstance(result, list)
    return sorted(result, key=_compact) if is_unordered else result


def steady_text(text: str, drawn: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return *text* without what differs from run to run."""
    for literal, placeholder in drawn.items():
        text = text.replace(literal, placeholder)
    for pattern, placeholder in PATTERNS.items():
        text = re.sub(pattern, placeholder, text)
    return text


def apart(value: Json) -> tuple[Json, str]:
    """Return an answer with the numbers of its sentences alone, and the sentences themselves."""
    sentences: list[str] = []
    return _apart(value, "", sentences), "\n".join(sentences)


def _apart(value: Json, at: str, sentences: list[str]) -> Json:
    if isinstance(value, list):
        return [_apart(item, f"{at}[{number}]", sentences) for number, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    data = {}
    for name, item in value.items():
        place = f"{at}.{name}".removeprefix(".")
        if _is_prose(name, item, value):
            texts = item if isinstance(item, list) else [item]
            sentences += [f"{place}: {text}" for text in texts]
            data[name] = wording(" ".join(texts))
        else:
            data[name] = _apart(item, place, sentences)
    return data


def _is_prose(name: str, item: Json, owner: Mapping[str, Json]) -> bool:
    is_named = name in PROSE and (not PROSE[name] or PROSE[name] in owner)
    return is_named and (isinstance(item, str) or name in PROSE_LISTS)


def wording(text: str) -> str:
    """Return what stands for a text in the data: its numbers, in whatever order it has them."""
    return " ".join(["<wording>", *sorted(re.findall(r"\d[\d,]*(?:\.\d+)?", text))])


def abridged(value: Json) -> Json:
    """Return *value* with the first of each long list, and a digest of all of it."""
    if isinstance(value, dict):
        return {name: abridged(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    are_scalars = not any(isinstance(item, dict | list) for item in value)
    if len(value) <= (_SCALARS_SHOWN if are_scalars else _SHOWN):
        return [abridged(item) for item in value]
    rest = {"of": len(value), "digest": digest(value)}
    return [*(abridged(item) for item in value[: _SHOWN - 1]), rest]


def digest(value: Json) -> str:
    """Return what stands for *value*."""
    return hashlib.sha256(_compact(value).encode()).hexdigest()[:16]


def table(text: str, name: str) -> Json:
    """Return CSV as columns and rows, which are called *name*."""
    columns, *lines = csv.reader(io.StringIO(text))
    rows = [dict(zip(columns, map(_cell, line), strict=True)) for line in lines]
    return {"columns": columns, name: rows}


def written(value: Json, indent: str = "") -> str:
    """Write JSON so that a change shows as few lines."""
    compact = _compact(value)
    if len(indent) + len(compact) <= _LINE or not isinstance(value, dict | list) or not value:
        return compact
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {written(item, inner)}" for name, item in value.items()]
    else:
        parts = [written(item, inner) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    lines = ",\n".join(inner + part for part in parts)
    return f"{opening}\n{lines}\n{indent}{closing}"


def _compact(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)


def _cell(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return text
