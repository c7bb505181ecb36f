"""The checkpoint interval, and its optimum.

With training time T, failures F and blocking b of each checkpoint, an interval I wastes
(F I / 2 + (T / I) b) / T, least at sqrt(2 T b / F), where it is sqrt(2 b F / T). All are by
cluster, as failures are.
"""

from dashboards.build.kit import Kind, Query
from dashboards.build.prometheus.promql import clusters, cohorts, rate
from dashboards.build.prometheus.shared import NOTHING_FAILED, FleetPanel, fleet_series
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
        title="Interval and optimum",
        description="Training time between two checkpoints over the last 7 days, all cohorts of "
        "the cluster together; and the optimum sqrt(2 T b / F), from their training time T, "
        "failures F and mean blocking b. Within a factor of 1.5 of the optimum little is lost.",
        kind=Kind.STAT,
        unit="s",
        decimals=0,
        queries=(
            Query(_ACTUAL, "{{cluster}}", instant=True),
            Query(_BEST, "optimum of {{cluster}}", instant=True, may_be_empty=NOTHING_FAILED),
        ),
        named=True,
        width=12,
        height=5,
    ),
    FleetPanel(
        title="Possible gain",
        description="Points of training time that the optimal interval would save: blocking and "
        "lost training as estimated for the present interval, less those at the optimum, over "
        "the last 7 days.",
        kind=Kind.STAT,
        unit="percentunit",
        decimals=2,
        queries=(Query(f"({_WASTE})\n-\n{_LEAST}", "{{cluster}}", instant=True),),
        named=True,
        width=6,
        height=5,
    ),
    FleetPanel(
        title="Mean checkpoint blocking",
        description="Seconds that each checkpoint blocked the training loop, over the last 7 "
        "days. Asynchronous checkpoints move the optimum further than anything else.",
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
    fleet_series(
        "Interval and optimum over time",
        "Over the 7 days before each point. Checkpoint less often if the interval "
        "is far below the optimum, more often if it is far above.",
        Query(_ACTUAL, "{{cluster}}"),
        Query(_BEST, "optimum of {{cluster}}", may_be_empty=NOTHING_FAILED),
        unit="s",
    ),
    fleet_series(
        "Checkpoint blocking and repeated training",
        "Shares of training loop time in the 7 days before each point. At the "
        "optimum both are about equal.",
        Query(f"{_stopped(_BY)}\n/ {_training(_BY)}", ("blocked {{cluster}}")),
        Query(f"{_repeated(_BY)}\n/ {_training(_BY)}", ("repeated {{cluster}}")),
        unit="percentunit",
    ),
)

BY_COHORT = (
    fleet_series(
        "Interval by model family",
        "Training time between two checkpoints in the 7 days before each point. "
        "Jobs that checkpoint by steps do so less often when they get slower.",
        Query(f"{_training(_BY_COHORT)}\n/ ({_saves(_BY_COHORT)} > 0)", _NAME),
        unit="s",
        width=8,
    ),
    fleet_series(
        "Checkpoint blocking by model family",
        "Share of training loop time that checkpoints blocked, in the 7 days before "
        "each point. If it is high, checkpoint less often, or asynchronously.",
        Query(f"{_stopped(_BY_COHORT)}\n/ ({_training(_BY_COHORT)} > 0)", _NAME),
        unit="percentunit",
        width=8,
    ),
    fleet_series(
        "Repeated training by model family",
        "Share of training loop time that repeated training lost to a failure, in "
        "the 7 days before each point. If it is high, checkpoint more often.",
        Query(f"{_repeated(_BY_COHORT)}\n/ ({_training(_BY_COHORT)} > 0)", _NAME),
        unit="percentunit",
        width=8,
    ),
)
