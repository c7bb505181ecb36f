"""The fleet's time in a window: in total, and by group of cohorts.

The members of a group mean the same wherever one is answered.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import AliasPath, Field

from ett_service.api.answers import (
    Answer,
    ByCategory,
    ComputedAnswer,
    Of,
    OfCohorts,
    QuestionAnswer,
    Ratio,
    Seconds,
    WeightedSeconds,
    Words,
)
from ett_service.api.bodies import OF_WINDOW, FormatParameter, as_files, listed
from ett_service.api.deps import (
    GroupedScope,
    Reader,
    State,
    WindowParameter,
    at_once,
    only_declared_parameters,
)
from ett_service.api.jobs.members import (
    CostAnswer,
    DistributionAnswer,
    FailureCountAnswer,
    LossAnswer,
    MtbfAnswer,
    ProductivityAnswer,
)
from ett_service.core.fleet.measures import MEASURES
from ett_service.core.fleet.totals import FAILURE, PHASE, PreemptionOrder, Totals
from ett_service.core.words import TIMED, Category, Owner, Period
from ett_service.fleet import summary as fleet
from ett_service.fleet.summary import Group

TimedPhase = Annotated[str, Words(tuple(map(str, TIMED)))]


@dataclass(frozen=True, slots=True)
class Measures:
    """Totals read by attribute: every measure, and what is derived from them."""

    totals: Totals

    def __getattr__(self, name: str) -> Any:
        return self.totals[name] if name in _MEASURES else getattr(self.totals, name)


_MEASURES = frozenset(MEASURES)


def by_word(us: Callable[[Totals, Any], int], words: type[Category | Owner | Period]) -> Of:
    """Compute what was spent on each of the *words*, from an attribute ``totals``."""

    def compute(group: Any) -> dict[Category | Owner | Period, int]:
        totals = group.totals
        return {word: us(totals, word) for word in words}

    return Of(compute)


def _measure(name: str) -> Of:
    return Of(lambda group: group.totals[name])


def _failure_counts(group: Any) -> list[dict[str, Any]] | None:
    if not group.distributions:
        return None
    counts = []
    for name, tally in group.totals.tallies.items():
        if name.startswith(FAILURE) and tally.n:
            origin, cause = name.removeprefix(FAILURE).split("/")
            count = {"origin": origin, "cause": cause, "count": tally.n}
            counts.append({**count, "unsaved_training_seconds": tally.us})
    return sorted(counts, key=lambda each: (-each["count"], each["origin"], each["cause"]))


class FailuresAnswer(ComputedAnswer):
    """Attempts that ended `failed`, `preempted` or `lost` in the window."""

    total: Annotated[int, _measure("failures")]
    infra: Annotated[int, _measure("infra_failures")] = Field(
        description="Those of origin `infra` or `preemption`."
    )
    per_1000_gpu_hours: float | None = Field(
        validation_alias=AliasPath("totals", "failures_per_1000_gpu_hours"),
        description="Null without held accelerators.",
    )
    per_1000_node_days: Annotated[
        float | None,
        Of(
            lambda group: group.totals.failures_per_1000_node_days(
                group.economy.accelerators_per_node
            )
        ),
    ] = Field(description="Assumes `accelerators_per_node`. Null without held accelerators.")
    accelerators_per_node: int = Field(
        validation_alias=AliasPath("economy", "accelerators_per_node"),
        description="An assumption, from the settings.",
    )
    by: Annotated[list[FailureCountAnswer] | None, Of(_failure_counts)] = Field(
        description="Most frequent first; null without distributions."
    )


def _loss(order: PreemptionOrder) -> Of:
    return Of(lambda group: group.preemption.of(order))


class PreemptionAnswer(ComputedAnswer):
    """Preempted attempts, by why the job that took their accelerators (`preempted_by`) ran."""

    preempted: Annotated[int, _measure("preemptions")]
    attempts: Annotated[int, _measure("attempts")]
    ratio: float | None = Field(
        validation_alias=AliasPath("totals", "preemption_ratio"),
        description="Preempted over started attempts; null without any.",
    )
    first_order: Annotated[LossAnswer, _loss(PreemptionOrder.FIRST)] = Field(
        description="That job had new work to do."
    )
    second_order: Annotated[LossAnswer, _loss(PreemptionOrder.SECOND)] = Field(
        description="That job was recovering from a failure: the last attempt that it had started "
        "by then had ended `failed` or `lost`, or followed one that did."
    )
    unknown: Annotated[LossAnswer, _loss(PreemptionOrder.UNKNOWN)] = Field(
        description="`preempted_by` is missing, or names an unknown job."
    )


class TargetAnswer(Answer):
    """The ETT% target of the settings for this group."""

    ett_ratio: Ratio = Field(validation_alias="target")
    distance: float | None = Field(
        description="`ett_ratio` of the group minus the target's; null without weighted time."
    )


def _distribution(name: str) -> Of:
    return Of(lambda group: group.totals.tally(name) if group.distributions else None)


def _phases(group: Any) -> Mapping[str, Any] | None:
    if not group.distributions:
        return None
    return {str(phase): group.totals.tally(f"{PHASE}{phase}") for phase in TIMED}


def _whole(group: Any) -> Any:
    return group


class GroupAnswer(OfCohorts, ComputedAnswer):
    """The sums of a group of cohorts over their time in the window, each divided once."""

    jobs: int = Field(description="Jobs that were alive in the window.")
    attempts: int = Field(description="Attempts that started in it.")
    e2e_seconds: Seconds
    weighted_seconds: WeightedSeconds
    gpu_seconds: WeightedSeconds = Field(
        description="The weighted seconds in which accelerators were held and paid for."
    )
    categories: Annotated[ByCategory, by_word(Totals.category_us, Category)] = Field(
        description="They sum to `e2e_seconds`."
    )
    weighted_categories: Annotated[ByCategory, by_word(Totals.category_weighted_us, Category)] = (
        Field(description="They sum to `weighted_seconds`.")
    )
    gpu_categories: Annotated[ByCategory, by_word(Totals.category_gpu_us, Category)] = Field(
        description="They sum to `gpu_seconds`."
    )
    periods: Annotated[
        dict[Period, Seconds],
        by_word(Totals.period_us, Period),
    ] = Field(description="They sum to `e2e_seconds`.")
    owners: Annotated[dict[Owner, Seconds], by_word(Totals.wait_us, Owner)] = Field(
        description="By whose wait it was; they sum to the periods `scheduling`, `starting` and "
        "`recovering`."
    )
    weighted_owners: Annotated[dict[Owner, Seconds], by_word(Totals.wait_weighted_us, Owner)] = (
        Field(description="The same times accelerators, where those are known.")
    )
    queue_owners: Annotated[dict[Owner, Seconds], by_word(Totals.queue_us, Owner)] = Field(
        description="They sum to `queue_wait_seconds`."
    )
    ett_ratio: Ratio = Field(
        description="The headline: effective over all seconds, weighted by accelerators."
    )
    ett_ratio_wall: Ratio = Field(description="The same by wall time, without weights.")
    ett_ratio_median_job: Annotated[
        float | None,
        Of(lambda group: group.totals.ett_ratio_median_job if group.distributions else None),
    ] = Field(
        description="Median of the jobs whose time ends in the window, each over its whole life, "
        "to 0.0005; null without any, and without distributions."
    )
    wasted_ratio: Ratio = Field(
        description="WTT%: the wasted part of the period `training`, by wall time."
    )
    queue_wait_seconds: Seconds = Field(description="Of the runs that started; not part of E2E.")
    between_runs_seconds: Seconds = Field(
        description="Of the runs that began again a job that had completed; not part of E2E."
    )
    effective_at_reference_seconds: Seconds = Field(
        description="The part of effective training at reference speed, of the attempts that ended "
        "in the window or run at its end."
    )
    effective_at_reference_weighted_seconds: WeightedSeconds
    slowed_seconds: Seconds = Field(
        description="What their steps took beyond it. A part of effective training, too."
    )
    slowed_weighted_seconds: WeightedSeconds
    slowed_ratio: float | None = Field(
        description="Slowed over measured effective training, weighted by accelerators. Null where "
        "nothing is measured."
    )
    slowed_ratio_wall: float | None = Field(description="The same by wall time, without weights.")
    speed_unmeasured_seconds: Seconds = Field(
        description="The rest of their effective training, which no steps measure."
    )
    speed_unmeasured_weighted_seconds: WeightedSeconds
    data_wait_seconds: Seconds = Field(
        description="What loops waited for data, of the attempts that ended in the window or run "
        "at its end, and report it."
    )
    data_wait_weighted_seconds: WeightedSeconds
    data_wait_loop_seconds: Seconds = Field(description="The time of these loops.")
    data_wait_loop_weighted_seconds: WeightedSeconds
    data_wait_attempts: int = Field(
        description="How many attempts report it, those of unknown accelerators among them."
    )
    data_wait_ratio: float | None = Field(
        description="Waits for data over the time of these loops, weighted by accelerators. Null "
        "where nothing reports them."
    )
    data_wait_ratio_wall: float | None = Field(
        description="The same by wall time, without weights."
    )
    unsaved_training_seconds: Seconds = Field(validation_alias="unsaved_us")
    lost_weighted_seconds: WeightedSeconds = Field(
        description="Weighted seconds that were not effective training."
    )
    failures: Annotated[FailuresAnswer, Of(_whole)]
    mtbf: MtbfAnswer = Field(validation_alias="between_failures")
    infra_mtbf: MtbfAnswer = Field(validation_alias="between_infra_failures")
    preemption: Annotated[PreemptionAnswer, Of(_whole)]
    time_to_start: Annotated[DistributionAnswer | None, _distribution("time_to_start")]
    time_to_recover: Annotated[DistributionAnswer | None, _distribution("time_to_recover")] = Field(
        description="Of the recoveries after a failure that reached a loop again. Those after a "
        "cancelled attempt, and those that are not over, are in `ett_v_recoveries` alone."
    )
    checkpoint_blocking: Annotated[
        DistributionAnswer | None, _distribution("checkpoint_blocking")
    ] = Field(description="Of each save that blocked the training loop.")
    queue_wait: Annotated[DistributionAnswer | None, _distribution("queue_wait")]
    phases: Annotated[dict[TimedPhase, DistributionAnswer] | None, Of(_phases)] = Field(
        description="The time of attempts in each phase that they have left."
    )
    cost: Annotated[CostAnswer, Of(_whole)]
    target: Annotated[
        TargetAnswer | None, Of(lambda group: None if group.target is None else group)
    ] = Field(description="Null where the settings name no target.")
    productivity: ProductivityAnswer
    unweighted_seconds: Seconds = Field(
        description="The part of `e2e_seconds` whose accelerators are unknown. No weighted number "
        "includes it."
    )
    jobs_without_accelerators: int = Field(
        validation_alias="jobs_ended_unweighted",
        description="Jobs whose time ends in the window and whose accelerators are unknown.",
    )
    jobs_left_out: int = Field(
        description="Jobs alive for more than 20,000 hours, which are not counted."
    )

    @classmethod
    def read(cls, group: Group, *more: object, distributions: bool) -> Self:
        """Read a group; without *distributions* what is read from them is null."""
        return cls.of(*more, group, Measures(group.totals), distributions=distributions)


router = APIRouter(
    prefix="/v1/fleet", tags=["fleet"], dependencies=[Depends(only_declared_parameters)]
)

RESPONSES = as_files(OF_WINDOW)

Distributions = Annotated[
    bool,
    Query(
        description="With `false`, members that need distributions are null, and large windows "
        "are answered sooner."
    ),
]


@dataclass(frozen=True, slots=True)
class WantedDistributions:
    """Of what distributions are read."""

    distributions: Distributions = True
    group_distributions: Annotated[
        bool,
        Query(
            description="With `false`, only the total has members that need distributions, and "
            "many groups are answered sooner."
        ),
    ] = True


class FleetSummary(QuestionAnswer):
    """A window in total, and by group."""

    total: GroupAnswer
    groups: list[GroupAnswer] = Field(description="Empty without `group_by`.")
    group_count: int = Field(description="The number of groups, including those beyond `limit`.")
    other_cohorts: int = Field(
        description="Cohorts of this question that were merged into `other` on any of the days. "
        "`where` and `group_by` cannot separate their time."
    )


@router.get(
    "/summary",
    operation_id="read_fleet_summary",
    response_model=FleetSummary,
    responses=RESPONSES,
)
def read_summary(
    scope: GroupedScope,
    window: WindowParameter,
    conn: Reader,
    state: State,
    *,
    sort: Annotated[
        fleet.GroupOrder,
        Query(description="Order of the groups: most weighted time, most lost time, or by name."),
    ] = "weighted",
    limit: Annotated[int, Query(ge=1, le=10_000, description="At most so many groups.")] = 1000,
    counted: Annotated[WantedDistributions, Depends(at_once(WantedDistributions))],
    form: FormatParameter = "json",
) -> FleetSummary | Response:
    """Return where the fleet's time in a window went, in total and by group.

    A file contains the groups. Without `group_by` it contains the total as one group.
    """
    summary = fleet.summary(
        conn, scope, window, state.economy, order=sort,
        distributions=counted.distributions, group_distributions=counted.group_distributions,
    )  # fmt: skip
    of_groups = counted.distributions and counted.group_distributions
    groups = [GroupAnswer.read(group, distributions=of_groups) for group in summary.groups[:limit]]
    total = GroupAnswer.read(summary.total, distributions=counted.distributions)
    answer = FleetSummary.of(
        scope,
        window,
        as_of=state.now_us(),
        total=total,
        groups=groups,
        group_count=len(summary.groups),
        other_cohorts=summary.other_cohorts,
    )
    rows = groups if scope.group_by else [total]
    return listed(form, answer, rows, of=GroupAnswer, name="fleet-summary")
