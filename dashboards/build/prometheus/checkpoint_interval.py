"""The interval between saves, and the best one.

With training time T, failures F and a stop b for each save, an interval I wastes
(F I / 2 + (T / I) b) / T, least at sqrt(2 T b / F), where it is sqrt(2 b F / T). All are told by
cluster, as failures are.
"""

from dashboards.build.kit import Kind, Query
from dashboards.build.prometheus.promql import clusters, cohorts, rate
from dashboards.build.prometheus.reading import NOTHING_FAILED, FleetPanel
from ett_service.core.words import Phase

_LOOP = f'phase="{Phase.TRAIN_LOOP}"'
_BY = "cluster"
_BY_COHORT = "cluster, cohort"
_NAME = "{{cluster}} {{cohort}}"


def _training(by: str) -> str:
    return f"sum by ({by}) ({rate(cohorts('ett_phase_seconds_total', _LOOP), '7d')})"


def _saves(by: str) -> str:
    return f"sum by ({by}) ({rate(cohorts('ett_checkpoint_blocking_seconds_count'), '7d')})"


def _stopped(by: str) -> str:
    return f"sum by ({by}) ({rate(cohorts('ett_checkpoint_blocking_seconds_sum'), '7d')})"


def _repeated(by: str) -> str:
    deducted = cohorts("ett_deducted_seconds_total", 'category="repeated_training"')
    return f"sum by ({by}) ({rate(deducted, '7d')})"


def _of_clusters(name: str, *matchers: str) -> str:
    return f"sum by (cluster) ({rate(clusters(name, *matchers), '7d')})"


_T = _of_clusters("ett_phase_seconds_total", _LOOP)
_F = _of_clusters("ett_failures_total")
_N = f"({_of_clusters('ett_checkpoint_blocking_seconds_count')} > 0)"
_B = f"({_of_clusters('ett_checkpoint_blocking_seconds_sum')}\n/ {_N})"
_ACTUAL = f"{_T}\n/ {_N}"
_BEST = f"sqrt(2 * {_T} * {_B} / ({_F} > 0))"
_WASTE = f"({_F} * ({_ACTUAL}) / 2 + {_N} * {_B}) / {_T}"
_LEAST = f"sqrt(2 * {_B} * {_F} / {_T})"

NOW = (
    FleetPanel(
        title="Interval, and the best one",
        description="Training time between two saves, all cohorts of the cluster together, over "
        "the last 7 days; and sqrt(2 T b / F) with their training time T, failures F and mean stop "
        "b. Within a factor of 1.5 of the best little is lost.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=(
            Query(_ACTUAL, "{{cluster}}", instant=True),
            Query(_BEST, "best of {{cluster}}", instant=True, may_be_empty=NOTHING_FAILED),
        ),
        named=True,
        width=12,
        height=5,
    ),
    FleetPanel(
        title="To gain",
        description="Points of training time that the best interval would save: stops and training "
        "lost to failures as estimated for the interval now, less those for the best, of the last "
        "7 days.",
        kind=Kind.STAT,
        unit="percentunit",
        decimals=2,
        queries=(Query(f"({_WASTE})\n-\n{_LEAST}", "{{cluster}}", instant=True),),
        named=True,
        width=6,
        height=5,
    ),
    FleetPanel(
        title="Mean stop for a save",
        description="Seconds that the loop stood still for each save, over the last 7 days. "
        "Saving asynchronously moves the best interval further than anything else.",
        kind=Kind.STAT,
        unit="s",
        decimals=1,
        queries=(Query(_B, "{{cluster}}", instant=True),),
        named=True,
        width=6,
        height=5,
    ),
)

INTERVAL = (
    FleetPanel(
        title="Interval and best interval",
        description="Of the 7 days before each point. Save less often where the interval lies far "
        "below the best, more often where it lies far above.",
        unit="s",
        low=0,
        queries=(
            Query(_ACTUAL, "{{cluster}}"),
            Query(_BEST, "best of {{cluster}}", may_be_empty=NOTHING_FAILED),
        ),
    ),
    FleetPanel(
        title="Stopped for saves, and trained again",
        description="Share of loop time of the 7 days before each point. At the best interval both "
        "are about the same.",
        unit="percentunit",
        low=0,
        queries=(
            Query(f"{_stopped(_BY)}\n/ {_training(_BY)}", "stopped {{cluster}}"),
            Query(f"{_repeated(_BY)}\n/ {_training(_BY)}", "trained again {{cluster}}"),
        ),
    ),
)

BY_COHORT = (
    FleetPanel(
        title="Interval by model family",
        description="Training time between two saves in the 7 days before each point. Jobs that "
        "save by steps save less often when they get slower.",
        unit="s",
        low=0,
        queries=(Query(f"{_training(_BY_COHORT)}\n/ ({_saves(_BY_COHORT)} > 0)", _NAME),),
        width=8,
    ),
    FleetPanel(
        title="Stopped for saves, by model family",
        description="Share of loop time that saves stopped, in the 7 days before each point. High: "
        "save less often, or asynchronously.",
        unit="percentunit",
        low=0,
        queries=(Query(f"{_stopped(_BY_COHORT)}\n/ ({_training(_BY_COHORT)} > 0)", _NAME),),
        width=8,
    ),
    FleetPanel(
        title="Trained again, by model family",
        description="Share of loop time that repeated what a failure had lost, in the 7 days "
        "before each point. High: save more often.",
        unit="percentunit",
        low=0,
        queries=(Query(f"{_repeated(_BY_COHORT)}\n/ ({_training(_BY_COHORT)} > 0)", _NAME),),
        width=8,
    ),
)
