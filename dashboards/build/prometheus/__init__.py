"""The pack over Prometheus: the metrics page and the recording rules."""

from dashboards.build.kit import Pack
from dashboards.build.prometheus.checkpoints import CHECKPOINTS
from dashboards.build.prometheus.cohort import COHORT
from dashboards.build.prometheus.compile_cost import COMPILE
from dashboards.build.prometheus.failures import FAILURES
from dashboards.build.prometheus.fleet import FLEET
from dashboards.build.prometheus.health import HEALTH
from dashboards.build.prometheus.regressions import REGRESSIONS

PROMETHEUS = Pack(
    "prometheus", (FLEET, REGRESSIONS, COHORT, FAILURES, CHECKPOINTS, COMPILE, HEALTH)
)
