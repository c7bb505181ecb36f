"""The pack over Prometheus: what the page of metrics and the recording rules tell."""

from dashboards.build.kit import Pack
from dashboards.build.prometheus.checkpoints import CHECKPOINTS
from dashboards.build.prometheus.cohort import COHORT
from dashboards.build.prometheus.compile_cost import COMPILE
from dashboards.build.prometheus.failures import FAILURES
from dashboards.build.prometheus.fleet import FLEET
from dashboards.build.prometheus.regressions import REGRESSIONS
from dashboards.build.prometheus.wellbeing import WELLBEING

PROMETHEUS = Pack(
    "prometheus", (FLEET, REGRESSIONS, COHORT, FAILURES, CHECKPOINTS, COMPILE, WELLBEING)
)
