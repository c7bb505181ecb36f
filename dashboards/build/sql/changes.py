"""What did each deploy change?

The sides of a marker are those of the API's change ledger: as long as the variable ``reach`` has
days, and cut where a marker of the same kind and labels (but for ``code_version``) lies. Labels
``team model cluster hardware kind`` of a marker narrow what is looked at.
"""

from dashboards.build.sql.scope import (
    DAY_US,
    DAYS,
    END_HOUR_US,
    ETT,
    FIRST_HOUR_US,
    FROM_US,
    OF_PROJECT,
    TO_US,
    all_of,
    chosen,
    rolled_up,
)
from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.core.words import Category
from ett_service.fleet.changes import STEPS

_REACH_US = "${reach:sqlstring}::bigint * 86400000000"
_NOW_US = "(EXTRACT(EPOCH FROM NOW()) * 1000000)::bigint"
_HOUR = 3_600_000_000


def _narrowed(rows: str) -> str:
    return all_of(
        f"{rows}.project = sides.project",
        *(
            f"(COALESCE({rows}.{name}, '') = sides.labels ->> '{name}') IS NOT FALSE"
            for name in JOB_DIMENSIONS
        ),
    )


_SIDES = f"""
marked AS MATERIALIZED (
  SELECT project, id, kind, title, at, at_us, COALESCE(end_us, at_us) AS end_us,
    labels::jsonb AS labels, labels::jsonb - 'code_version' AS what
  FROM ett_v_markers
  WHERE at_us >= {FIRST_HOUR_US} - {_REACH_US} AND at_us < {END_HOUR_US} + {_REACH_US}
  AND {OF_PROJECT}
), spans AS (
  SELECT one.*,
    GREATEST(at_us - {_REACH_US}, (
      SELECT MAX(LEAST(other.end_us, one.at_us)) FROM marked AS other
      WHERE (other.project, other.kind, other.what) = (one.project, one.kind, one.what)
        AND other.at_us < one.at_us
    )) AS low_us,
    LEAST(end_us + {_REACH_US}, GREATEST(end_us, {_NOW_US}), (
      SELECT MIN(GREATEST(other.at_us, one.end_us)) FROM marked AS other
      WHERE (other.project, other.kind, other.what) = (one.project, one.kind, one.what)
        AND other.at_us > one.at_us
    )) AS high_us
  FROM marked AS one
  WHERE at_us >= {FIRST_HOUR_US} AND at_us < {END_HOUR_US} AND {chosen("kind")}
), sides AS (
  SELECT project, id, labels, 'before' AS side, low_us AS from_us, at_us AS to_us FROM spans
  UNION ALL
  SELECT project, id, labels, 'after', end_us, high_us FROM spans
)""".strip()

_SAVES = f"""
saves AS MATERIALIZED (
  SELECT attempts.project, attempts.team, attempts.model, attempts.cluster, attempts.hardware,
    attempts.kind, attempts.started_us, AVG(phases.seconds) AS seconds
  FROM ett_v_attempts AS attempts JOIN ett_v_phases AS phases USING (project, job, number)
  WHERE phases.category = '{Category.CHECKPOINT_BLOCKING}' AND NOT attempts.excluded
    AND attempts.ended_us >= {FROM_US} - {_REACH_US}
    AND attempts.started_us < {TO_US} + {_REACH_US}
  GROUP BY attempts.project, attempts.job, attempts.number, 1, 2, 3, 4, 5, 6, 7
)""".strip()
"""The mean stop for a save of each attempt, as the API measures ``checkpoint_blocking``."""

_FULL = rolled_up(
    f"start_us >= (from_us + {_HOUR - 1}) / {_HOUR} * {_HOUR}"
    f" AND start_us < to_us / {_HOUR} * {_HOUR}",
    f"start_us >= from_us AND start_us <= to_us - {DAY_US}",
)
"""The full hours of a side; where these are gone, its full days."""

_MEASURED = f"""
measured AS (
  SELECT sides.project, sides.id, side, ett_ratio, starts, time_to_start, saving, blocking
  FROM sides
  CROSS JOIN LATERAL (
    SELECT {ETT} AS ett_ratio FROM {_FULL} AS parts
    WHERE NOT excluded AND {_narrowed("parts")}
  ) AS ett
  CROSS JOIN LATERAL (
    SELECT COUNT(*) AS starts, AVG(time_to_start_seconds) AS time_to_start
    FROM ett_v_jobs AS jobs
    WHERE started_us >= from_us AND started_us < to_us AND time_to_start_seconds IS NOT NULL
      AND NOT excluded AND {_narrowed("jobs")}
  ) AS started
  CROSS JOIN LATERAL (
    SELECT COUNT(*) AS saving, AVG(seconds) AS blocking FROM saves
    WHERE started_us >= from_us AND started_us < to_us AND {_narrowed("saves")}
  ) AS saved
)""".strip()


def _beside(column: str) -> str:
    return ", ".join(
        f"MAX({column}) FILTER (WHERE side = '{side}') AS {column}_{side}"
        for side in ("before", "after")
    )


EFFECTS = f"""
WITH {_SIDES}, {_SAVES}, {_MEASURED}, beside AS (
  SELECT project, id, {_beside("ett_ratio")},
    {_beside("time_to_start")}, {_beside("starts")},
    {_beside("blocking")}, {_beside("saving")}
  FROM measured GROUP BY 1, 2
)
SELECT at, spans.project, kind, title, ett_ratio_before, ett_ratio_after,
  ett_ratio_after - ett_ratio_before AS ett_difference,
  time_to_start_before, time_to_start_after,
  time_to_start_after - time_to_start_before AS time_to_start_difference,
  blocking_before, blocking_after, blocking_after - blocking_before AS blocking_difference,
  starts_before, starts_after, saving_before, saving_after
FROM spans JOIN beside ON (beside.project, beside.id) = (spans.project, spans.id)
ORDER BY at_us DESC, spans.id DESC
""".strip()

_STEP_KINDS = ", ".join(f"'{kind}'" for kind in STEPS)

_LEVELS = f"""
edges AS (
  SELECT at_us, MAX(title) AS title FROM ett_v_markers
  WHERE at_us > {FIRST_HOUR_US} AND at_us < {END_HOUR_US} AND kind IN ({_STEP_KINDS})
  AND {OF_PROJECT}
  GROUP BY 1
  UNION ALL SELECT {FIRST_HOUR_US}, 'before the first'
), stretches AS (
  SELECT at_us, title, LEAD(at_us, 1, {END_HOUR_US}) OVER (ORDER BY at_us) AS to_us FROM edges
), levels AS (
  SELECT at_us, to_us, title, COUNT(*) AS starts, AVG(time_to_start_seconds) AS mean
  FROM stretches JOIN ett_v_jobs AS jobs ON jobs.started_us >= at_us AND jobs.started_us < to_us
  WHERE time_to_start_seconds IS NOT NULL
  AND NOT excluded AND {chosen("jobs.project", "project")}
  GROUP BY 1, 2, 3
)""".strip()

WATERFALL = f"""
WITH {_LEVELS}
SELECT TO_TIMESTAMP(at_us / 1e6) AS time, title, starts, mean AS time_to_start,
  COALESCE(mean - LAG(mean) OVER later, 0) AS step,
  mean - FIRST_VALUE(mean) OVER later AS since_the_first
FROM levels WINDOW later AS (ORDER BY at_us) ORDER BY at_us
""".strip()
"""The mean time to start from one deploy or launch to the next. The steps sum to its change."""

CUMULATIVE = f"""
WITH {_LEVELS}, moved AS (
  SELECT at_us, to_us, mean - FIRST_VALUE(mean) OVER (ORDER BY at_us) AS since_the_first
  FROM levels
)
SELECT TO_TIMESTAMP(edge_us / 1e6) AS time, since_the_first
FROM moved CROSS JOIN LATERAL (VALUES (at_us), (to_us - 1000000)) AS edges (edge_us) ORDER BY 1
""".strip()
"""The same as a line that is level from each edge to the next."""

ETT_BY_DAY = f"""
SELECT start_at AS time, {ETT} AS ett_ratio FROM ett_v_rollup_daily
WHERE {DAYS}
  AND NOT excluded AND {OF_PROJECT}
GROUP BY 1 ORDER BY 1
""".strip()

STARTS_BY_DAY = f"""
SELECT $__timeGroupAlias(started_at, '1d'), AVG(time_to_start_seconds) AS mean,
  PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY time_to_start_seconds) AS median
FROM ett_v_jobs
WHERE started_us >= {FROM_US} AND started_us < {TO_US} AND time_to_start_seconds IS NOT NULL
  AND NOT excluded AND {OF_PROJECT}
GROUP BY 1 ORDER BY 1
""".strip()

SAVES_BY_DAY = f"""
SELECT $__timeGroupAlias(phases.started_at, '1d'), AVG(phases.seconds) AS mean,
  PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY phases.seconds) AS p90
FROM ett_v_attempts AS attempts JOIN ett_v_phases AS phases USING (project, job, number)
WHERE attempts.ended_us >= {FROM_US} AND attempts.started_us < {TO_US} AND NOT excluded
  AND phases.started_us >= {FROM_US} AND phases.started_us < {TO_US}
  AND phases.category = '{Category.CHECKPOINT_BLOCKING}' AND {OF_PROJECT}
GROUP BY 1 ORDER BY 1
""".strip()

REGRESSIONS = f"""
SELECT onset_at AS time, verdict, state, severity, metric, phase, stage, cause, cohort,
  before_median, after_median, ratio - 1 AS change, gpu_hours_per_week, ett_points,
  suspect_dimension || '=' || suspect_value AS associated_with, project, id
FROM ett_v_regressions
WHERE state <> 'inactive' AND onset_us < {TO_US}
  AND (resolved_us IS NULL OR resolved_us >= {FROM_US}) AND {OF_PROJECT}
ORDER BY (state = 'resolved'), gpu_hours_per_week DESC NULLS LAST, id
""".strip()
"""What the search for regressions found in the range, whatever became of it."""
