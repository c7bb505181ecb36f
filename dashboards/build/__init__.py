"""The dashboards as a program; ``python -m dashboards.build`` writes what Grafana loads."""

from dashboards.build.kit import Pack
from dashboards.build.postgres import POSTGRES
from dashboards.build.prometheus import PROMETHEUS

PACKS: tuple[Pack, ...] = (PROMETHEUS, POSTGRES)
"""Every dashboard, with its panels and their queries as plain data."""
