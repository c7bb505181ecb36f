"""Write every dashboard beside this program, and Grafana's copy of the alerts."""

from pathlib import Path

from dashboards.build import PACKS
from dashboards.build.alerting import COPY, alerting
from dashboards.build.files import write
from ett_service.metrics.rules.rule import COMPOSE, Objective

ROOT = Path(__file__).parents[1]

if __name__ == "__main__":
    write(PACKS, ROOT)
    (ROOT / COPY).write_text(alerting(Objective(), COMPOSE), "utf-8")
