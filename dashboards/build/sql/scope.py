"""What the questions have in common: which time, whose time, and what is summed over categories.

``$__...()`` are macros that Grafana's backend expands, ``${...}`` variables that its pages fill
in. Conditions stand on ``_us`` columns, as instants (``_at``) have no index.
"""

from collections.abc import Iterable

from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.core.words import Category

EVERYTHING = "NULL"
"""What Grafana writes for All: an ``IN (NULL)`` is unknown, which every row passes."""

FROM_US = "$__unixEpochNanoFrom() / 1000"
TO_US = "$__unixEpochNanoTo() / 1000"
"""The range of the page in microseconds since 1970."""

FIRST_HOUR_US = "$__unixEpochNanoFrom() / 3600000000000 * 3600000000"
END_HOUR_US = "($__unixEpochNanoTo() + 3599999999999) / 3600000000000 * 3600000000"
"""The range widened to full hours, as the API widens it."""

DAY_US = 86_400_000_000


def rolled_up(hours: str, days: str) -> str:
    """Return the rows of the rollups for ``FROM``: those *hours*, and *days* where hours are gone.

    Both are conditions on ``start_us``.
    """
    return (
        f"(\n  SELECT * FROM ett_v_rollup_hourly\n  WHERE {hours}\n"
        "  UNION ALL\n"
        "  SELECT * FROM ett_v_rollup_daily\n"
        f"  WHERE start_us < (SELECT hourly_from_us FROM ett_v_retention)\n  AND {days}\n)"
    )


IN_RANGE = rolled_up(
    f"start_us >= {FIRST_HOUR_US} AND start_us < {END_HOUR_US}",
    f"start_us > {FIRST_HOUR_US} - {DAY_US} AND start_us < {END_HOUR_US}",
)
"""Hours of which a part lies in the range; where these are gone, such days."""

DAYS = f"start_us >= {FROM_US} AND start_us < {TO_US}"
"""Days (UTC) that begin in the range, so that no day at its edge looks small."""


CHOSEN = tuple(name for name in JOB_DIMENSIONS if name != "kind")
"""Dimensions that a page about the fleet lets its reader choose."""


def chosen(column: str, variable: str = "") -> str:
    """Return the condition that a text is one of those chosen; ``unknown`` is the empty one."""
    value = f"COALESCE(NULLIF({column}, ''), 'unknown')"
    return f"({value} IN (${{{variable or column}:sqlstring}})) IS NOT FALSE"


def all_of(*conditions: str) -> str:
    """Return the condition that holds where all of them do."""
    return "\n  AND ".join(conditions)


OF_PROJECT = chosen("project")
COUNTED = all_of(
    "NOT excluded",
    OF_PROJECT,
    *(chosen(name) for name in CHOSEN),
)
"""Of rows of cohorts, jobs or attempts: what was chosen, but for what was taken out."""

OF_THE_JOB = "project = ${project:sqlstring} AND job = ${job:sqlstring}"

ETT = "SUM(effective_training_weighted_seconds) / NULLIF(SUM(weighted_seconds), 0)"
"""ETT% of rows of the rollups, by accelerators: parts are added up, then divided, once."""

ETT_WALL = "SUM(effective_training_seconds) / NULLIF(SUM(e2e_seconds), 0)"
GPU_HOURS = "SUM(gpu_seconds) / 3600"
LOST_GPU_HOURS = "SUM(gpu_seconds - effective_training_weighted_seconds) / 3600"
"""Accelerators' time that was paid for, and what of it trained nothing new."""

RUNNING_SECONDS = "SUM(e2e_seconds - scheduling_seconds - restart_wait_seconds)"
"""Time in which something could fail."""


def gpu_seconds(category: Category) -> str:
    """Return the accelerators' time that *category* has in ``gpu_seconds`` of a rollup."""
    match category:
        case Category.SCHEDULING:
            return "0::float8"
        case Category.RESTART_WAIT:
            return "restart_wait_gpu_seconds"
        case _:
            return f"{category}_weighted_seconds"


def values_of(dimension: str) -> str:
    """Return the query of a variable: what the fleet has of a dimension in the range."""
    return (
        f"SELECT DISTINCT COALESCE(NULLIF({dimension}, ''), 'unknown') FROM ett_v_rollup_daily\n"
        f"WHERE start_us >= {FROM_US} - 86400000000 AND start_us < {TO_US} ORDER BY 1"
    )


def named(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the columns of a selection, each an expression and its name."""
    return ",\n  ".join(f"{value} AS {name}" for value, name in pairs)
