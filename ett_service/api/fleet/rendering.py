"""Turns groups of cohorts into answers; microseconds become seconds as in ``rendering``."""

from collections.abc import Callable
from typing import Any, get_args

from ett_service.api.fleet.answers import TopJobAnswer
from ett_service.api.fleet.groups import (
    CostAnswer,
    DistributionAnswer,
    FailureCountAnswer,
    FailuresAnswer,
    GroupAnswer,
    LossAnswer,
    MtbfAnswer,
    PreemptionAnswer,
    TargetAnswer,
    TimedPhase,
)
from ett_service.api.rendering import maybe_seconds, productivity_answer, seconds
from ett_service.core.fleet.distribution import Tally
from ett_service.core.fleet.totals import FAILURE, PHASE, Totals
from ett_service.core.intervals import rfc3339
from ett_service.core.words import Category, Cause, Origin, Period
from ett_service.fleet.scope import Scope, Window
from ett_service.fleet.series import TopJob
from ett_service.fleet.summary import Group
from ett_service.fleet.uncertainty import TimeBetween
from ett_service.storage.fleet.preemptions import Loss, PreemptionOrder


def asked_members(scope: Scope, window: Window, now_us: int) -> dict[str, Any]:
    """Repeat what was asked, as it was understood."""
    return {
        "from": rfc3339(window.from_us),
        "to": rfc3339(window.to_us),
        "as_of": rfc3339(now_us),
        "group_by": list(scope.group_by),
        "where": {name: sorted(values) for name, values in sorted(scope.where.items())},
        "exclusions": scope.exclusions,
    }


def group_answer(group: Group, *, distributions: bool) -> GroupAnswer:
    """Answer one group."""
    return GroupAnswer(**group_members(group, distributions=distributions))


def group_members(group: Group, *, distributions: bool) -> dict[str, Any]:
    """Divide each sum of a group, once."""
    totals = group.totals
    return {
        "group": {name: value or None for name, value in group.labels.items()},
        "other": group.other,
        "jobs": group.jobs,
        "attempts": totals["attempts"],
        **_times(totals),
        **_distributions(totals, known=distributions),
        "queue_wait_seconds": seconds(totals["queue_wait_us"]),
        "unsaved_training_seconds": seconds(totals["unsaved_us"]),
        "failures": _failures(group, known=distributions),
        "mtbf": _mtbf(group.between_failures),
        "infra_mtbf": _mtbf(group.between_infra_failures),
        "preemption": _preemption(group),
        "cost": _cost(group),
        "target": _target(group),
        "productivity": productivity_answer(group.productivity),
        "unweighted_seconds": seconds(totals["unweighted_us"]),
        "jobs_without_accelerators": totals["jobs_ended_unweighted"],
        "jobs_left_out": totals["jobs_left_out"],
    }


def top_job_answer(top: TopJob) -> TopJobAnswer:
    """Answer what one job contributed."""
    totals, facts = top.totals, top.facts
    times = _times(totals)
    of_facts = ("job", "project", "state", "name", "team", "model", "cluster", "hardware", "gpus")
    of_times = (
        "e2e_seconds",
        "weighted_seconds",
        "gpu_seconds",
        "lost_weighted_seconds",
        "weighted_categories",
        "ett_ratio",
    )
    return TopJobAnswer(
        **{name: getattr(facts, name) for name in of_facts},
        **{name: times[name] for name in of_times},
        attempts=totals["attempts"],
        failures=totals["failures"],
        unsaved_training_seconds=seconds(totals["unsaved_us"]),
        cost=top.cost.total,
    )


def _times(totals: Totals) -> dict[str, Any]:
    return {
        "e2e_seconds": seconds(totals.e2e_us),
        "weighted_seconds": seconds(totals.weighted_us),
        "gpu_seconds": seconds(totals.gpu_us),
        "categories": _by_category(totals.category_us),
        "weighted_categories": _by_category(totals.category_weighted_us),
        "gpu_categories": _by_category(totals.category_gpu_us),
        "periods": {period: seconds(totals.period_us(period)) for period in Period},
        "ett_ratio": totals.ett_ratio,
        "ett_ratio_wall": totals.ett_ratio_wall,
        "wasted_ratio": totals.wasted_ratio,
        "lost_weighted_seconds": seconds(totals.lost_weighted_us),
    }


def _by_category(us: Callable[[Category], int]) -> dict[Category, float]:
    return {category: seconds(us(category)) for category in Category}


def _distributions(totals: Totals, *, known: bool) -> dict[str, Any]:
    names = ("time_to_start", "time_to_recover", "checkpoint_blocking", "queue_wait")
    if not known:
        return dict.fromkeys((*names, "phases", "ett_ratio_median_job"))
    return {
        **{name: _distribution(totals.tally(name)) for name in names},
        "phases": {
            phase: _distribution(totals.tally(f"{PHASE}{phase}")) for phase in get_args(TimedPhase)
        },
        "ett_ratio_median_job": totals.ett_ratio_median_job,
    }


def _distribution(tally: Tally) -> DistributionAnswer:
    p50, p90, p99 = (maybe_seconds(tally.quantile(q)) for q in (0.5, 0.9, 0.99))
    mean = maybe_seconds(tally.mean_us)
    return DistributionAnswer(count=tally.n, mean=mean, p50=p50, p90=p90, p99=p99)


def _failures(group: Group, *, known: bool) -> FailuresAnswer:
    totals, per_node = group.totals, group.economy.accelerators_per_node
    return FailuresAnswer(
        total=totals["failures"],
        infra=totals["infra_failures"],
        per_1000_gpu_hours=totals.failures_per_1000_gpu_hours,
        per_1000_node_days=totals.failures_per_1000_node_days(per_node),
        accelerators_per_node=per_node,
        by=_by_cause(totals) if known else None,
    )


def _by_cause(totals: Totals) -> list[FailureCountAnswer]:
    counted = []
    for name, tally in totals.tallies.items():
        if name.startswith(FAILURE) and tally.n:
            origin, cause = name.removeprefix(FAILURE).split("/")
            counted.append(
                FailureCountAnswer(
                    origin=Origin(origin),
                    cause=Cause(cause),
                    count=tally.n,
                    unsaved_training_seconds=seconds(tally.us),
                )
            )
    return sorted(counted, key=lambda one: (-one.count, one.origin, one.cause))


def _mtbf(found: TimeBetween) -> MtbfAnswer:
    return MtbfAnswer(
        seconds=maybe_seconds(found.us),
        low=maybe_seconds(found.low_us),
        high=maybe_seconds(found.high_us),
        confidence=found.confidence,
        failures=found.failures,
    )


def _preemption(group: Group) -> PreemptionAnswer:
    totals = group.totals
    return PreemptionAnswer(
        preempted=totals["preemptions"],
        attempts=totals["attempts"],
        ratio=totals.preemption_ratio,
        first_order=_loss(group.preemption.of(PreemptionOrder.FIRST)),
        second_order=_loss(group.preemption.of(PreemptionOrder.SECOND)),
        unknown=_loss(group.preemption.of(PreemptionOrder.UNKNOWN)),
    )


def _loss(loss: Loss) -> LossAnswer:
    return LossAnswer(
        count=loss.attempts,
        lost_weighted_seconds=seconds(loss.unsaved_weighted_us + loss.recovery_weighted_us),
        unsaved_weighted_seconds=seconds(loss.unsaved_weighted_us),
        recovery_weighted_seconds=seconds(loss.recovery_weighted_us),
        without_accelerators=loss.unweighted,
    )


def _cost(group: Group) -> CostAnswer:
    return CostAnswer(
        currency=group.economy.currency,
        total=group.cost.total,
        by_category=dict(group.cost.by_category),
        unpriced_gpu_seconds=seconds(group.cost.unpriced_gpu_us),
    )


def _target(group: Group) -> TargetAnswer | None:
    if group.target is None:
        return None
    return TargetAnswer(ett_ratio=group.target, distance=group.distance)
