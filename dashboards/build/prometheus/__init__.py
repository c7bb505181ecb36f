"""The pack over Prometheus: what the page of metrics and the recording rules tell."""

from dashboards.build.kit import Pack
from dashboards.build.prometheus.fleet import FLEET

PROMETHEUS = Pack("prometheus", (FLEET,))
