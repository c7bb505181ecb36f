"""The parts of queries.

Fleet series are the same on every replica. Rates of counters are taken of the one series that a
recording rule makes of them, which outlives each replica. Ratios are of sums, divided last.
"""

from collections.abc import Mapping

from ett_service.core.words import Category, Phase

EFFECTIVE = "cluster_cohort:ett_effective_weighted_seconds:rate1d"
WEIGHTED = "cluster_cohort:ett_phase_weighted_seconds:rate1d"
RATIO = "cluster_cohort:ett_effective_per_weighted_seconds:ratio_rate1d"
OPEN_FOR = "cluster_cohort_phase:ett_oldest_open_phase_seconds:max"

INEFFECTIVE = f'category!="{Category.EFFECTIVE_TRAINING}"'
HOUR_S = 3600
WEEK_AGO = " offset 7d"

_MERGED: Mapping[str, str] = {
    "ett_phase_weighted_seconds_total": "cluster_cohort_phase_held",
    "ett_deducted_weighted_seconds_total": "cluster_cohort_phase_category",
    "ett_phase_seconds_total": "cluster_cohort_phase",
    "ett_deducted_seconds_total": "cluster_cohort_phase_category",
    "ett_between_runs_seconds_total": "cluster_cohort",
    "ett_effective_speed_seconds_total": "cluster_cohort_speed",
    "ett_data_wait_seconds_total": "cluster_cohort",
    "ett_data_wait_loop_seconds_total": "cluster_cohort",
    "ett_attempts_started_total": "cluster_cohort_start",
    "ett_failures_total": "cluster_origin_cause",
    "ett_time_to_start_seconds_bucket": "cluster_cohort_le",
    "ett_time_to_recover_seconds_bucket": "cluster_cohort_le",
    "ett_checkpoint_blocking_seconds_bucket": "cluster_cohort_le",
    "ett_checkpoint_blocking_seconds_count": "cluster_cohort",
    "ett_checkpoint_blocking_seconds_sum": "cluster_cohort",
    "ett_phase_duration_seconds_bucket": "cluster_phase_le",
}
"""Labels of each counter that is recorded as one series."""

_RATED = frozenset(
    {
        "ett_time_to_start_seconds_bucket",
        "ett_time_to_recover_seconds_bucket",
        "ett_checkpoint_blocking_seconds_bucket",
    }
)
"""The rate of a day is recorded for these, too."""

_JOB = 'job="$job"'
_CLUSTERS = 'cluster=~"$cluster"'
_COHORTS = 'cohort=~"$cohort"'
_INSTANCES = 'instance=~"$instance"'


def whole(name: str, *matchers: str) -> str:
    """Select series without cluster and cohort."""
    return _selected(name, _JOB, *matchers)


def clusters(name: str, *matchers: str) -> str:
    """Select the selected clusters."""
    return _selected(name, _JOB, _CLUSTERS, *matchers)


def cohorts(name: str, *matchers: str) -> str:
    """Select the selected cohorts of the selected clusters."""
    return _selected(name, _JOB, _CLUSTERS, _COHORTS, *matchers)


def own(name: str, *matchers: str) -> str:
    """Select the own metrics of the selected instances."""
    return _selected(name, _JOB, _INSTANCES, *matchers)


def once(text: str) -> str:
    """Merge the series of all replicas, which are the same."""
    return f"max without (instance, pod) ({text})"


def rate(selector: str, window: str = "$__rate_interval", ago: str = "") -> str:
    """Return the rate of a fleet counter, over the interval of a point or a fixed window."""
    return _over("rate", selector, window, ago)


def grown(selector: str, window: str = "$__rate_interval", ago: str = "") -> str:
    """Return the increase of a fleet counter, likewise."""
    return _over("increase", selector, window, ago)


def traced(selector: str) -> str:
    """Return the increase of the series as scraped, which alone have exemplars."""
    return once(f"increase({selector}[$__rate_interval])")


def quantile(q: float, selector: str, by: str = "") -> str:
    """Return a quantile of a fleet histogram over the day before.

    *by* are labels to group by, each with a comma behind.
    """
    name, _, matchers = selector.partition("{")
    rated = rate(selector, "1d")
    if name in _RATED:
        rated = f"{_MERGED[name]}:{name}:rate1d{{{matchers}"
    return f"histogram_quantile({q:g}, sum by ({by}le) ({rated}))"


def ratio(days: str, by: str = "", ago: str = "") -> str:
    """ETT over ``1d``, ``7d`` or ``28d``, restated; *ago* is an ``offset``."""
    value = once(cohorts("ett_window_ratio", f'window="{days}"', 'weighting="accelerators"') + ago)
    weight = weight_of(days, ago)
    return f"sum{by} ({value} * ignoring (weighting) {weight})\n/\nsum{by} ({weight})"


def weight_of(days: str, ago: str = "") -> str:
    """Accelerator-seconds of each cohort over a window; what its ratio divides by."""
    return once(cohorts("ett_window_weighted_seconds", f'window="{days}"') + ago)


def gpu_hours(days: str, *matchers: str, ago: str = "") -> str:
    """Hours of held accelerators by category over a window, restated."""
    held = once(clusters("ett_window_gpu_seconds", f'window="{days}"', *matchers) + ago)
    return f"sum by (category) ({held}) / {HOUR_S}"


def failures_per_1000_gpu_hours(window: str, *matchers: str, by: str = "", ago: str = "") -> str:
    """Failures over the time of held accelerators, of the chosen clusters."""
    failed = rate(clusters("ett_failures_total", *matchers), window, ago)
    held = rate(clusters("ett_phase_weighted_seconds_total", 'held="true"'), window, ago)
    return f"sum by ({by}) ({failed})\n/ on () group_left ()\n(sum ({held}) / {1000 * HOUR_S})"


def by_category(window: str = "$__rate_interval", ago: str = "", *, effective: bool) -> str:
    """Accelerator-seconds per second by category, of the chosen cohorts.

    Phases, less what is deducted from them, and what is deducted from others; without *effective*
    training, which is the loop less its deductions.
    """
    of = () if effective else (f'phase!="{Phase.TRAIN_LOOP}"',)
    gross = rate(cohorts("ett_phase_weighted_seconds_total", *of), window, ago)
    added = rate(cohorts("ett_deducted_weighted_seconds_total"), window, ago)
    taken = rate(cohorts("ett_deducted_weighted_seconds_total", *of), window, ago)
    lost = f"-sum without (category) ({taken})"
    return f"sum by (category) (\n{_named(gross)}\nor\n{added}\nor\n{_named(lost)}\n)"


def dated(week: str, text: str) -> str:
    """Label each series with its *week*."""
    return f'label_replace({text}, "week", "{week}", "", "")'


def _over(function: str, selector: str, window: str, ago: str) -> str:
    name, _, matchers = selector.partition("{")
    return f"{function}({_MERGED[name]}:{name}:max{{{matchers}[{window}]{ago})"


def _named(text: str) -> str:
    """Label a phase with its category: its own name, but for the training loop."""
    named = f'label_replace({text}, "category", "$1", "phase", "(.+)")'
    loop = f'"category", "{Category.EFFECTIVE_TRAINING}", "phase", "{Phase.TRAIN_LOOP}"'
    return f"label_replace({named}, {loop})"


def _selected(name: str, *matchers: str) -> str:
    return f"{name}{{{', '.join(matchers)}}}"
