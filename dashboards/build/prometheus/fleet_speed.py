"""Panels of how fast the training itself is, and of the time between runs."""

from dashboards.build.kit import Kind, Query
from dashboards.build.prometheus.promql import HOUR_S, cohorts, grown, rate
from dashboards.build.prometheus.shared import FleetPanel, fleet_series

_NONE_ENDED = "No attempt ended in the day before."
_NONE_REPORTS = "No attempt that ended in the day before reports waits for data."

_TRAINED = f"(sum ({rate(cohorts('ett_effective_speed_seconds_total'), '1d')}) > 0)"


def _share(speed: str) -> str:
    part = rate(cohorts("ett_effective_speed_seconds_total", f'speed="{speed}"'), "1d")
    return f"sum ({part})\n/\n{_TRAINED}"


SPEED = (
    fleet_series(
        "Effective training that was slowed, or not measured",
        "Of the attempts that ended in the day before each point: what their steps took beyond "
        "the job's own best step time, and what no steps measure. ETT counts both.",
        Query(_share("slowed"), "slowed", may_be_empty=_NONE_ENDED),
        Query(_share("unmeasured"), "not measured", may_be_empty=_NONE_ENDED),
        unit="percentunit",
        width=8,
    ),
    fleet_series(
        "Loops waiting for data",
        "The share of their loops that attempts waited for batches, of those that ended in the "
        "day before each point and report it. More loaders, or faster storage, bring it down.",
        Query(
            f"sum ({rate(cohorts('ett_data_wait_seconds_total'), '1d')})\n/\n"
            f"(sum ({rate(cohorts('ett_data_wait_loop_seconds_total'), '1d')}) > 0)",
            "waiting",
            may_be_empty=_NONE_REPORTS,
        ),
        unit="percentunit",
        width=8,
    ),
    FleetPanel(
        title="Between runs, last 7 days",
        description="Hours from the end of jobs that completed to the first sign of their next "
        "run. They are in no end-to-end time and count as no loss.",
        kind=Kind.STAT,
        unit="short",
        decimals=1,
        queries=(
            Query(
                f"sum ({grown(cohorts('ett_between_runs_seconds_total'), '7d')}) / {HOUR_S}",
                "hours",
                instant=True,
            ),
        ),
        width=8,
    ),
)
