"""What differs between these two sets of runs?

A set is the attempts that began in the range and have what its variables choose. Time between
attempts counts with the attempt before it, whose accelerators it is weighted by.
"""

from dashboards.build.sql.scope import CHOSEN, FROM_US, OF_PROJECT, TO_US, all_of, chosen
from ett_service.core.words import FAILURES, Category

SETS = ("a", "b")
DIMENSIONS = (*CHOSEN, "code_version", "job")
"""What a set is chosen by: variables ``a_team``, ``b_team`` and so on."""

BOUNDS_S = (60, 120, 300, 600, 900, 1800, 3600, 7200)
"""Where the steps of the distribution of times to the loop begin."""

_FAILED = ", ".join(f"'{outcome}'" for outcome in sorted(FAILURES))


def _set(name: str) -> str:
    conditions = all_of(*(chosen(dimension, f"{name}_{dimension}") for dimension in DIMENSIONS))
    return f"SELECT '{name.upper()}' AS set, begun.* FROM begun WHERE {conditions}"


_ATTEMPTS = f"""
begun AS MATERIALIZED (
  SELECT * FROM ett_v_attempts
  WHERE started_us >= {FROM_US} AND started_us < {TO_US} AND ended_us >= {FROM_US}
  AND NOT excluded AND {OF_PROJECT}
), attempts AS MATERIALIZED (
  {_set("a")}
  UNION ALL
  {_set("b")}
)""".strip()

_SPENT = f"""
{_ATTEMPTS}, segments AS (
  SELECT project, job, category, seconds,
    MAX(number) OVER (PARTITION BY project, job ORDER BY started_us) AS number
  FROM ett_v_phases JOIN (SELECT DISTINCT project, job FROM attempts) AS jobs USING (project, job)
), spent AS (
  SELECT set, category, SUM(segments.seconds * gpus) AS weighted
  FROM attempts JOIN segments USING (project, job, number) GROUP BY 1, 2
), whole AS (
  SELECT set, SUM(weighted) AS weighted FROM spent GROUP BY 1
)""".strip()

SUMMARY = f"""
WITH {_SPENT}, counted AS (
  SELECT set, COUNT(DISTINCT (project, job)) AS jobs, COUNT(*) AS attempts,
    COUNT(*) FILTER (WHERE outcome IN ({_FAILED})) AS failures,
    PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY time_to_loop_seconds) AS time_to_loop_p50,
    PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY time_to_loop_seconds) AS time_to_loop_p90,
    SUM(unsaved_training_seconds * gpus) / 3600 AS unsaved_gpu_hours
  FROM attempts GROUP BY 1
)
SELECT set, jobs, attempts, whole.weighted / 3600 AS accelerator_hours,
  SUM(spent.weighted) FILTER (WHERE category = '{Category.EFFECTIVE_TRAINING}')
    / NULLIF(whole.weighted, 0) AS ett_ratio,
  time_to_loop_p50, time_to_loop_p90, failures,
  failures * 3600000 / NULLIF(whole.weighted, 0) AS failures_per_1000_hours, unsaved_gpu_hours
FROM counted LEFT JOIN whole USING (set) LEFT JOIN spent USING (set)
GROUP BY set, jobs, attempts, whole.weighted, time_to_loop_p50, time_to_loop_p90, failures,
  unsaved_gpu_hours
ORDER BY set
""".strip()

_SHARES_OF = ",\n  ".join(
    f"SUM(spent.weighted) FILTER (WHERE category = '{name}') / NULLIF(whole.weighted, 0) AS {name}"
    for name in Category
)

SHARES = f"""
WITH {_SPENT}
SELECT set,
  {_SHARES_OF}
FROM spent JOIN whole USING (set) GROUP BY set, whole.weighted ORDER BY set
""".strip()

DIFFERENCES = f"""
WITH {_SPENT}, shares AS (
  SELECT set, category, spent.weighted / NULLIF(whole.weighted, 0) AS share
  FROM spent JOIN whole USING (set)
), beside AS (
  SELECT category, COALESCE(SUM(share) FILTER (WHERE set = 'A'), 0) AS a,
    COALESCE(SUM(share) FILTER (WHERE set = 'B'), 0) AS b
  FROM shares GROUP BY 1
)
SELECT category, a, b, b - a AS difference FROM beside ORDER BY ABS(b - a) DESC, category
""".strip()


def _step(place: int) -> str:
    """Name what lies between two bounds, in minutes."""
    edges = [bound // 60 for bound in BOUNDS_S]
    if place == 0:
        return f"under {edges[0]} min"
    if place == len(edges):
        return f"{edges[-1]} min and more"
    return f"{edges[place - 1]} to {edges[place]} min"


_STEPS = ", ".join(f"({place}, '{_step(place)}')" for place in range(len(BOUNDS_S) + 1))

_SHARES_OF_STEP = ",\n  ".join(
    f"COUNT(*) FILTER (WHERE set = '{name.upper()}')::float8"
    f" / NULLIF((SELECT COUNT(*) FROM placed WHERE set = '{name.upper()}'), 0) AS {name}"
    for name in SETS
)

TIME_TO_LOOP = f"""
WITH {_ATTEMPTS}, placed AS (
  SELECT set, WIDTH_BUCKET(time_to_loop_seconds, ARRAY{list(BOUNDS_S)}::float8[]) AS place
  FROM attempts WHERE time_to_loop_seconds IS NOT NULL
)
SELECT step AS time_to_loop,
  {_SHARES_OF_STEP}
FROM (VALUES {_STEPS}) AS steps (place, step) LEFT JOIN placed USING (place)
GROUP BY place, step ORDER BY place
""".strip()
"""The share of each set's attempts that took so long; those that reached no loop left out."""

_RATES = ",\n  ".join(
    "COALESCE(SUM(failures * 3600000 / NULLIF(weighted, 0))"
    f" FILTER (WHERE set = '{name.upper()}'), 0) AS {name}"
    for name in SETS
)

FAILURES_BY_CAUSE = f"""
WITH {_SPENT}, failed AS (
  SELECT cause, set, COUNT(*) AS failures FROM attempts
  WHERE outcome IN ({_FAILED}) GROUP BY 1, 2
)
SELECT cause,
  {_RATES}
FROM failed JOIN whole USING (set) GROUP BY cause ORDER BY cause
""".strip()


def values_of(dimension: str) -> str:
    """Return the query of a variable: what the attempts of the range have of a dimension."""
    return (
        f"SELECT DISTINCT COALESCE(NULLIF({dimension}, ''), 'unknown') FROM ett_v_attempts\n"
        f"WHERE started_us >= {FROM_US} AND started_us < {TO_US} AND ended_us >= {FROM_US}\n"
        f"  AND {OF_PROJECT} ORDER BY 1 LIMIT 1000"
    )
