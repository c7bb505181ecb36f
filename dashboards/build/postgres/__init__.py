"""The pack over PostgreSQL: the views ``ett_v_*``, exact and job by job."""

from dashboards.build.kit import Pack
from dashboards.build.postgres.changes import CHANGES
from dashboards.build.postgres.compare import COMPARE
from dashboards.build.postgres.fleet import FLEET
from dashboards.build.postgres.job import JOB

POSTGRES = Pack("postgres", (FLEET, JOB, COMPARE, CHANGES))
