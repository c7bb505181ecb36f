"""Recording rules: replicas are merged first, then come rates, then sums, and ratios last.

Fleet counters are the same on every replica and never go down, so replicas are merged before any
rate is taken: over a rollout each pod has seen only a part of a window, and the largest of those
parts is not the whole. Rates come before sums, because a sum may fall although no counter does, and
a rate would take that for a reset: a cohort whose place on the page another takes leaves the sum,
and floats that are added in another order may yield a little less.
"""

from collections.abc import Iterator

from ett_service.metrics.rules.rule import Group, Objective, Recording, Scale, decimal

HISTOGRAMS = (
    "ett_time_to_start_seconds",
    "ett_time_to_recover_seconds",
    "ett_checkpoint_blocking_seconds",
)
QUANTILES = {"p50": "0.5", "p90": "0.9", "p99": "0.99"}
INFRA = 'origin=~"infra|preemption"'
"""Failures of the platform; lost contact may be a fault of the service itself."""

WEIGHTED = "cluster_cohort_phase_held:ett_phase_weighted_seconds_total:max"
DEDUCTED = "cluster_cohort_phase_category:ett_deducted_weighted_seconds_total:max"
INEFFECTIVE = "cluster_cohort_phase:ett_ineffective_weighted_seconds_total:max"
"""All time that is not ETT: every other phase, and the deductions from the training loop."""

FAILURES = "cluster_origin_cause:ett_failures_total:max"
OPEN = "cluster_cohort_phase:ett_oldest_open_phase_seconds:max"

_MERGED_ONLY = {
    "ett_phase_seconds_total": "cluster_cohort_phase",
    "ett_deducted_seconds_total": "cluster_cohort_phase_category",
    "ett_between_runs_seconds_total": "cluster_cohort",
    "ett_effective_speed_seconds_total": "cluster_cohort_speed",
    "ett_data_wait_seconds_total": "cluster_cohort",
    "ett_data_wait_loop_seconds_total": "cluster_cohort",
    "ett_attempts_started_total": "cluster_cohort_start",
    "ett_checkpoint_blocking_seconds_count": "cluster_cohort",
    "ett_checkpoint_blocking_seconds_sum": "cluster_cohort",
    "ett_phase_duration_seconds_bucket": "cluster_phase_le",
}
"""Counters of which dashboards take rates over other windows, and their labels."""

_LOOKBACK = "5m"
_LOOP = '{phase="train_loop"}'


def groups(objective: Objective, scale: Scale) -> list[Group]:
    """Return every group of recording rules, in the order in which they build on each other."""
    return [
        Group("ett.merged", [*_merged(scale)]),
        *(Group(f"ett.rates_{window}", [*_rates(window, scale)]) for window in ("1h", "1d")),
        Group("ett.failures", [*_failures(scale)]),
        Group("ett.quantiles", [*_quantiles(scale)], interval="2m"),
        Group("ett.objective", [*_objective(objective, scale)]),
    ]


def merged(metric: str) -> str:
    """Return *metric* merged over replicas."""
    return f"max without (instance, pod) ({metric})"


def _merged(scale: Scale) -> Iterator[Recording]:
    def counter(metric: str) -> str:
        # A replica that is gone counts for the lookback, until the others have caught up: a
        # maximum that falls would be read as a counter reset.
        return merged(f"max_over_time({metric}[{scale.text(_LOOKBACK)}])")

    yield Recording(WEIGHTED, counter("ett_phase_weighted_seconds_total"))
    yield Recording(DEDUCTED, counter("ett_deducted_weighted_seconds_total"))
    yield Recording(INEFFECTIVE, f'{WEIGHTED}{{phase!="train_loop"}} or {DEDUCTED}{_LOOP}')
    yield Recording(FAILURES, counter("ett_failures_total"))
    for histogram in HISTOGRAMS:
        yield Recording(f"cluster_cohort_le:{histogram}_bucket:max", counter(f"{histogram}_bucket"))
    for metric, labels in _MERGED_ONLY.items():
        yield Recording(f"{labels}:{metric}:max", counter(metric))
    yield Recording(
        OPEN,
        _lines(
            f"  {merged('ett_published_timestamp_seconds')}",
            "- ignoring (cluster, cohort, phase) group_right ()",
            f"  {merged('ett_oldest_open_phase_start_timestamp_seconds')}",
        ),
    )


def _rates(window: str, scale: Scale) -> Iterator[Recording]:
    """Yield accelerator seconds a second: by cohort, by phase, by category, and in all."""
    span, rate = scale.text(window), f"rate{window}"
    cohort_all = f"cluster_cohort:ett_phase_weighted_seconds:{rate}"
    cohort_effective = f"cluster_cohort:ett_effective_weighted_seconds:{rate}"
    yield Recording(cohort_all, f"sum without (phase, held) (rate({WEIGHTED}[{span}]))")
    yield Recording(
        f"cluster_cohort:ett_deducted_weighted_seconds:{rate}",
        f"sum without (phase, category) (rate({DEDUCTED}{_LOOP}[{span}]))",
    )
    ineffective = f"sum without (phase, held, category) (rate({INEFFECTIVE}[{span}]))"
    yield Recording(cohort_effective, _lines(f"  {cohort_all}", "-", f"  {ineffective}"))
    yield Recording(
        f"cluster_cohort:ett_effective_per_weighted_seconds:ratio_{rate}",
        _ratio(cohort_effective, cohort_all),
    )
    held = f"cluster_phase_held:ett_phase_weighted_seconds:{rate}"
    phase = f"cluster_phase:ett_phase_weighted_seconds:{rate}"
    deducted = f"cluster_phase_category:ett_deducted_weighted_seconds:{rate}"
    yield Recording(held, f"sum without (cohort) (rate({WEIGHTED}[{span}]))")
    yield Recording(phase, f"sum without (held) ({held})")
    yield Recording(deducted, f"sum without (cohort) (rate({DEDUCTED}[{span}]))")
    category = f"cluster_category:ett_weighted_seconds:{rate}"
    yield Recording(category, _categories(phase, deducted))
    yield from _cluster(rate, cohort_all, cohort_effective)


def _cluster(rate: str, cohort_all: str, cohort_effective: str) -> Iterator[Recording]:
    everything = f"cluster:ett_phase_weighted_seconds:{rate}"
    effective = f"cluster:ett_effective_weighted_seconds:{rate}"
    yield Recording(everything, f"sum without (cohort) ({cohort_all})")
    yield Recording(effective, f"sum without (cohort) ({cohort_effective})")
    yield Recording(
        f"cluster:ett_effective_per_weighted_seconds:ratio_{rate}", _ratio(effective, everything)
    )


def _categories(phase: str, deducted: str) -> str:
    """Return phases as categories: without what is deducted from them, with what is added."""

    def named(category: str, expr: str) -> str:
        return f'label_replace({expr}, "category", "{category}", "", "")'

    def rest(of: str) -> str:
        gross, moved = f'{phase}{{phase="{of}"}}', f'{deducted}{{phase="{of}"}}'
        return f"sum without (phase) ({gross}) - sum without (phase, category) ({moved})"

    selector = f'{phase}{{phase!~"pt2_compile|stalled|train_loop"}}'
    stalled = (
        f'sum without (phase) ({phase}{{phase="stalled"}})'
        f' + sum without (phase, category) ({deducted}{{category="stalled"}})'
    )
    return "\nor\n".join(
        (
            f'sum without (phase) (label_replace({selector}, "category", "$1", "phase", "(.+)"))',
            f'sum without (phase) ({deducted}{{category=~"recompile|repeated_training"}})',
            named("effective_training", rest("train_loop")),
            named("pt2_compile", rest("pt2_compile")),
            named("stalled", stalled),
        )
    )


def _failures(scale: Scale) -> Iterator[Recording]:
    day = scale.text("1d")
    yield Recording(
        "cluster_cause:ett_infra_failures:increase1d",
        f"sum without (origin) (increase({FAILURES}{{{INFRA}}}[{day}]))",
    )
    yield Recording(
        "cluster:ett_infra_failures_per_gpu_seconds:ratio_rate1d",
        _lines(
            f"  sum without (origin, cause) (rate({FAILURES}{{{INFRA}}}[{day}]))",
            "/",
            "  (sum without (phase, held) "
            '(cluster_phase_held:ett_phase_weighted_seconds:rate1d{held="true"}) > 0)',
        ),
    )


def _quantiles(scale: Scale) -> Iterator[Recording]:
    for histogram in HISTOGRAMS:
        buckets = f"cluster_cohort_le:{histogram}_bucket:rate1d"
        yield Recording(
            buckets, f"rate(cluster_cohort_le:{histogram}_bucket:max[{scale.text('1d')}])"
        )
        for name, quantile in QUANTILES.items():
            for level, of in (
                ("cluster_cohort", buckets),
                ("cluster", f"sum without (cohort) ({buckets})"),
            ):
                # Without observations a quantile is NaN, which is not above 0.
                expr = f"histogram_quantile({quantile}, {of}) > 0"
                yield Recording(f"{level}:{histogram}:{name}_1d", expr)


def _objective(objective: Objective, scale: Scale) -> Iterator[Recording]:
    """Yield the rates behind the budget alerts, and the budget used in 30 days."""
    for window in sorted({w for burn in objective.burns for w in (burn.long, burn.short)}):
        span = scale.text(window)
        everything = f"cluster:ett_phase_weighted_seconds:rate{window}"
        yield Recording(everything, f"sum without (cohort, phase, held) (rate({WEIGHTED}[{span}]))")
        ineffective = f"sum without (cohort, phase, held, category) (rate({INEFFECTIVE}[{span}]))"
        yield Recording(
            f"cluster:ett_ineffective_per_weighted_seconds:ratio_rate{window}",
            _ratio(ineffective, everything),
        )
    month = scale.text("30d")
    used = "cluster:ett_ineffective_per_weighted_seconds:ratio_rate30d"
    # From recorded rates: 30 days of every counter are too many samples a minute.
    parts = [
        f"sum_over_time(cluster:ett_{part}_weighted_seconds:rate1h[{month}])"
        for part in ("effective", "phase")
    ]
    yield Recording(used, f"1 - ({_ratio(*parts)})")
    yield Recording(
        "cluster:ett_ineffective_per_budget:ratio_rate30d",
        f"{used} / {decimal(objective.budget)}",
    )


def _ratio(part: str, whole: str) -> str:
    # If nothing ran there is no ratio, rather than 0 / 0.
    return f"{part} / ({whole} > 0)"


def _lines(*lines: str) -> str:
    return "\n".join(lines)
