"""Frames of what the search for regressions found, from either source."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from ett_service.frames import columns
from ett_service.frames.columns import typed
from ett_service.frames.source import FrameError

FILTERS = frozenset({"state", "verdict", "metric", "phase"})
"""What findings can be cut down to, each to one word."""

_FOUND_IN_ORDER = ["pending_at", "project", "id"]
_EMPTY_IS_NONE = ("phase", "stage", "cause", "currency")


def checked(where: Mapping[str, str]) -> Mapping[str, str]:
    """Pass filters that there are.

    Raises:
        FrameError: where there are others.
    """
    unknown = where.keys() - FILTERS
    if unknown:
        raise FrameError(
            f"regressions cannot be filtered by {', '.join(sorted(unknown))}",
            f"What can be: {', '.join(sorted(FILTERS))}.",
        )
    return where


def found_frame(rows: Iterable[Mapping[Any, Any]]) -> pd.DataFrame:
    """Return rows as the view has them as a frame, those that were found first first."""
    told = [{**row, **{name: row[name] or None for name in _EMPTY_IS_NONE}} for row in rows]
    return typed(told, columns.REGRESSIONS).sort_values(_FOUND_IN_ORDER, ignore_index=True)


def flattened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the API by the names of the view."""
    interval = row["interval"] or {"low": None, "high": None}
    return {
        **row,
        **row["impact"],
        "cohort": json.dumps(row["cohort"], ensure_ascii=False),
        "ratio_low": interval["low"],
        "ratio_high": interval["high"],
        **{
            f"{side}_{name}": row[side][name]
            for side in ("before", "after")
            for name in ("median", "n")
        },
    }
