"""Where did this run's time go?"""

from dashboards.build.sql.scope import FROM_US, OF_THE_JOB, TO_US, values_of
from ett_service.core.words import Category

PROJECTS = values_of("project")
JOBS = f"""
SELECT job FROM ett_v_jobs
WHERE project = ${{project:sqlstring}} AND ended_us >= {FROM_US} AND started_us < {TO_US}
ORDER BY gpu_seconds DESC NULLS LAST LIMIT 500
""".strip()
"""The values of the variables; a link may name any other job."""

_OF_JOB = f"FROM ett_v_jobs WHERE {OF_THE_JOB}"

ETT = f"SELECT ett_ratio {_OF_JOB}"
LENGTHS = (
    "SELECT e2e_seconds AS e2e, queue_wait_seconds AS queue_wait,"
    " time_to_start_seconds AS time_to_start,\n  unsaved_training_seconds AS unsaved,"
    f" between_runs_seconds AS between_runs {_OF_JOB}"
)
SPEED = (
    "SELECT effective_at_reference_seconds AS at_reference, slowed_seconds AS slowed,"
    f"\n  data_wait_seconds AS data_wait {_OF_JOB}"
)
DATA_WAIT = f"SELECT data_wait_ratio {_OF_JOB}"
STATE = (
    "SELECT state, team, model, cluster, hardware, gpus, code_version, started_at, ended_at,"
    f"\n  failures, gpu_seconds / 3600 AS gpu_hours {_OF_JOB}"
)

_CATEGORIES = ", ".join(f"('{category}', {category}_seconds)" for category in Category)

CATEGORIES = f"""
SELECT category, seconds, seconds / NULLIF(e2e_seconds, 0) AS share
FROM (SELECT * {_OF_JOB}) AS run CROSS JOIN LATERAL (VALUES
  {_CATEGORIES}
) AS spent (category, seconds)
WHERE seconds > 0 ORDER BY seconds DESC
""".strip()

TIMELINE = f"""
WITH segments AS (
  SELECT number, category, started_us, started_at, ended_us, ended_at,
    LEAD(started_us) OVER (PARTITION BY number ORDER BY started_us) AS next_us
  FROM ett_v_phases
  WHERE {OF_THE_JOB} AND started_us < {TO_US} AND ended_us > {FROM_US}
), changed AS (
  SELECT number, started_us AS us, started_at AS time, category FROM segments
  UNION ALL
  SELECT number, ended_us, ended_at, NULL FROM segments WHERE next_us IS DISTINCT FROM ended_us
)
SELECT time, COALESCE('attempt ' || number, 'between attempts') AS attempt, category AS "Value"
FROM changed ORDER BY number NULLS LAST, us
""".strip()
"""A state holds until the next of its attempt; a null ends it."""

ATTEMPTS = f"""
SELECT number, started_at, seconds, gpus, code_version, outcome, origin, cause, corrected, rule,
  evidence, time_to_loop_seconds AS time_to_loop,
  effective_training_seconds / NULLIF(seconds, 0) AS effective,
  unsaved_training_seconds AS unsaved, last_step, preempted_by,
  launch || '/' || attempt || '/' || cycle AS launch_attempt_cycle
FROM ett_v_attempts WHERE {OF_THE_JOB} ORDER BY number
""".strip()

_SECONDS_OF = ",\n  ".join(
    f"SUM(seconds) FILTER (WHERE category = '{category}') AS {category}" for category in Category
)

ATTEMPT_SHARES = f"""
SELECT 'attempt ' || number AS attempt,
  {_SECONDS_OF}
FROM ett_v_phases WHERE {OF_THE_JOB} AND number IS NOT NULL GROUP BY number ORDER BY number
""".strip()

RECOVERIES = f"""
SELECT started_at, interrupted, resumed, outcome, seconds, stalled_seconds AS stalled_before,
  repeated_seconds AS repeated_after
FROM ett_v_recoveries WHERE {OF_THE_JOB} ORDER BY started_at
""".strip()

CHECKPOINTS = f"""
SELECT saved_at AS time, blocking_seconds AS blocked_the_loop, duration_seconds AS until_durable
FROM ett_v_checkpoints
WHERE {OF_THE_JOB} AND saved_us >= {FROM_US} AND saved_us < {TO_US} ORDER BY 1
""".strip()

WAITS = f"""
SELECT part, owner, seconds FROM ett_v_waits WHERE {OF_THE_JOB} ORDER BY seconds DESC
""".strip()

STAGES = f"""
SELECT phase, stage, COUNT(*) AS attempts, SUM(spans) AS spans,
  SUM(inclusive_seconds) AS inclusive, SUM(exclusive_seconds) AS exclusive
FROM ett_v_stages WHERE {OF_THE_JOB} GROUP BY 1, 2 ORDER BY exclusive DESC
""".strip()
