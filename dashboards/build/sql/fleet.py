"""Where does the fleet's time go?"""

from dashboards.build.sql.scope import (
    COUNTED,
    DAYS,
    ETT,
    ETT_WALL,
    FROM_US,
    GPU_HOURS,
    IN_RANGE,
    LOST_GPU_HOURS,
    OF_PROJECT,
    RUNNING_SECONDS,
    TO_US,
    gpu_seconds,
    named,
)
from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.words import Category, Owner

_SUMMED = f"FROM {IN_RANGE} AS rolled_up\nWHERE {COUNTED}"
_BY_DAY = f"FROM ett_v_rollup_daily\nWHERE {DAYS}\n  AND {COUNTED}"
_DIMENSIONS = tuple(name for name in DIMENSIONS if name != "precision")

BY = ",".join(_DIMENSIONS)
"""What the fleet can be split by: the choices of the variable ``by``."""

_GROUP = (
    "CASE ${by:sqlstring}" + "".join(f" WHEN '{name}' THEN {name}" for name in _DIMENSIONS) + " END"
)
_GROUP_NAME = f"COALESCE(NULLIF({_GROUP}, ''), CASE WHEN other THEN 'other' ELSE 'unknown' END)"

ETT_NOW = f"SELECT {ETT} AS ett_ratio\n{_SUMMED}"
PAID = f"SELECT {GPU_HOURS} AS gpu_hours, {LOST_GPU_HOURS} AS lost_gpu_hours\n{_SUMMED}"
BETWEEN_FAILURES = (
    f"SELECT {RUNNING_SECONDS} / NULLIF(SUM(failures), 0) AS any_failure,\n"
    f"  {RUNNING_SECONDS} / NULLIF(SUM(infra_failures), 0) AS infra_failure\n{_SUMMED}"
)
UNSAVED = f"SELECT SUM(unsaved_weighted_seconds) / 3600 AS gpu_hours\n{_SUMMED}"

ETT_BY_DAY = (
    f"SELECT start_at AS time, {ETT} AS by_accelerators, {ETT_WALL} AS by_wall_time\n"
    f"{_BY_DAY}\nGROUP BY 1 ORDER BY 1"
)

BY_GROUP = f"""
SELECT {_GROUP_NAME} AS part, {ETT} AS ett_ratio, {GPU_HOURS} AS gpu_hours,
  {LOST_GPU_HOURS} AS lost_gpu_hours, SUM(failures) AS failures,
  {RUNNING_SECONDS} / NULLIF(SUM(failures), 0) AS between_failures,
  SUM(queue_wait_seconds) / NULLIF(SUM(jobs_started), 0) AS queue_wait
{_SUMMED}
GROUP BY 1 ORDER BY lost_gpu_hours DESC
""".strip()

GROUP_BY_DAY = f"""
WITH largest AS (
  SELECT {_GROUP_NAME} AS metric {_BY_DAY}
  GROUP BY 1 ORDER BY SUM(weighted_seconds) DESC LIMIT 10
)
SELECT start_at AS time, metric, {ETT} AS ett_ratio
FROM ett_v_rollup_daily JOIN largest ON metric = {_GROUP_NAME}
WHERE {DAYS}
  AND {COUNTED}
GROUP BY 1, 2 HAVING SUM(weighted_seconds) > 0 ORDER BY 1, 2
""".strip()

_HOURS_OF = [(f"SUM({gpu_seconds(category)}) / 3600", category.value) for category in Category]

CATEGORIES_BY_DAY = (
    f"SELECT start_at AS time,\n  {named(_HOURS_OF)}\n{_BY_DAY}\nGROUP BY 1 ORDER BY 1"
)

_LOST = ", ".join(
    f"('{category}', {category})"
    for category in Category
    if category is not Category.EFFECTIVE_TRAINING
)

LOST_BY_CATEGORY = f"""
WITH spent AS (SELECT
  {named(_HOURS_OF)}
{_SUMMED})
SELECT category, gpu_hours FROM spent CROSS JOIN LATERAL (VALUES
  {_LOST}
) AS lost (category, gpu_hours)
WHERE gpu_hours > 0 ORDER BY gpu_hours DESC
""".strip()

QUEUE_WAIT_BY_DAY = (
    "SELECT start_at AS time,"
    f" SUM(queue_wait_seconds) / NULLIF(SUM(jobs_started), 0) AS mean_wait\n{_BY_DAY}\n"
    "GROUP BY 1 ORDER BY 1"
)
_WAITED = [(f"SUM({owner}_wait_weighted_seconds) / 3600", owner.value) for owner in Owner]

WAITS_BY_DAY = f"SELECT start_at AS time,\n  {named(_WAITED)}\n{_BY_DAY}\nGROUP BY 1 ORDER BY 1"

UNSAVED_BY_DAY = (
    f"SELECT start_at AS time, SUM(unsaved_weighted_seconds) / 3600 AS gpu_hours\n{_BY_DAY}\n"
    "GROUP BY 1 ORDER BY 1"
)

_FAILED = (
    f"FROM ett_v_failures\nWHERE failed_us >= {FROM_US} AND failed_us < {TO_US}\n  AND {COUNTED}"
)
FAILURES_BY_CAUSE = f"""
SELECT $__timeGroupAlias(failed_at, '1d'), cause AS metric, COUNT(*) AS failures
{_FAILED}
GROUP BY 1, 2 ORDER BY 1, 2
""".strip()
UNSAVED_BY_CAUSE = f"""
SELECT origin, cause, COUNT(*) AS failures,
  SUM(unsaved_training_seconds * gpus) / 3600 AS unsaved_gpu_hours
{_FAILED}
GROUP BY 1, 2 ORDER BY unsaved_gpu_hours DESC NULLS LAST
""".strip()

TOP_JOBS = f"""
SELECT project, job, team, model, state, ett_ratio, gpu_seconds / 3600 AS gpu_hours,
  (gpu_seconds - effective_weighted_seconds) / 3600 AS lost_gpu_hours, failures,
  (started_us / 1000)::text AS from_ms, (ended_us / 1000 + 1)::text AS to_ms
FROM ett_v_jobs
WHERE ended_us >= {FROM_US} AND started_us < {TO_US} AND gpu_seconds IS NOT NULL
  AND {COUNTED}
ORDER BY lost_gpu_hours DESC LIMIT 20
""".strip()

MARKERS = f"""
SELECT at AS time, end_at AS timeend, title AS text, kind AS tags
FROM ett_v_markers
WHERE at_us >= {FROM_US} AND at_us < {TO_US} AND {OF_PROJECT}
ORDER BY 1
""".strip()
"""What people did, drawn across the panels of every dashboard."""

REGRESSIONS = f"""
SELECT onset_at AS time, resolved_at AS timeend,
  COALESCE(NULLIF(phase, ''), metric) || ' in ' || COALESCE(model, cluster, project)
    || COALESCE(' x ' || ROUND(ratio::numeric, 2), '') AS text, state AS tags
FROM ett_v_regressions
WHERE verdict = 'regression' AND firing_us IS NOT NULL AND onset_us < {TO_US}
  AND (resolved_us IS NULL OR resolved_us >= {FROM_US}) AND {OF_PROJECT}
ORDER BY 1
""".strip()
"""Regressions, from the onset until they were resolved."""
