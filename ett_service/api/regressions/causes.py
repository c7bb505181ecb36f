"""Findings by their cause: what one release costs in all cohorts together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from ett_service.api.answers import Answer, EmptyIsNull, Finite, Instant
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import (
    AT_MOST,
    At,
    Condition,
    ProjectIds,
    Reader,
    at_once,
    only_declared_parameters,
)
from ett_service.api.regressions.power import CohortLabels, SubjectPart
from ett_service.core.regressions.causes import CommonCause, causes_of, counted_once
from ett_service.core.regressions.finding import Finding, Metric, State, Verdict
from ett_service.fleet import scope as scopes
from ett_service.storage.regressions import regressions
from ett_service.storage.regressions.findings import Regression
from ett_service.storage.regressions.regressions import RegressionFilter

router = APIRouter(
    prefix="/v1/regressions/causes",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)


class TotalCostAnswer(Answer):
    """The cost of findings together. What is part of another counts once."""

    gpu_hours_per_week: Finite = Field(description="Null while accelerators are unknown.")
    cost_per_week: Finite = Field(description="Null where one of them has no price.")
    currency: Annotated[str | None, EmptyIsNull]


class CauseAnswer(Answer):
    """Findings that are associated with the same value or marker, in whichever cohorts."""

    project: str
    dimension: Annotated[str | None, EmptyIsNull] = Field(
        description="Of the likeliest suspect, such as `code_version`; null for a finding without "
        "one, which stands alone."
    )
    value: Annotated[str | None, EmptyIsNull]
    onset_at: Instant = Field(description="The earliest onset.")
    cost: TotalCostAnswer
    metric: Metric = Field(description="Of the finding that costs most, as are the next three.")
    phase: SubjectPart
    stage: SubjectPart
    cause: SubjectPart
    cohorts: list[CohortLabels] = Field(description="The one that costs most comes first.")
    findings: list[str] = Field(description="Their ids, in the order of the cohorts.")


class CausesAnswer(Answer):
    """The causes of what fires, the costliest first."""

    causes: list[CauseAnswer]
    total: TotalCostAnswer
    small: int = Field(description="Findings under the floor of costs, which are in no sum.")
    small_cost: TotalCostAnswer


@dataclass(frozen=True, kw_only=True)
class CausesQuery:
    """The query of the causes."""

    state: Annotated[
        tuple[State, ...], Query(description="Any of these; by default what fires.")
    ] = (State.FIRING,)
    where: Annotated[
        tuple[Condition, ...],
        Query(
            json_schema_extra=AT_MOST,
            description="`DIMENSION:VALUE` of the cohort. Different dimensions must all match.",
        ),
    ] = ()
    from_us: Annotated[At, Query(alias="from", description="Not over before it.")] = None
    to_us: Annotated[At, Query(alias="to", description="With an onset before it.")] = None

    def of(self, verdict: Verdict) -> RegressionFilter:
        """The filters for one verdict; what somebody called noise is left out."""
        return RegressionFilter(
            states=[each.value for each in self.state],
            verdicts=[verdict.value],
            where=scopes.where(self.where),
            from_us=self.from_us,
            to_us=self.to_us,
            without_noise=True,
        )


@router.get(
    "",
    operation_id="read_regression_causes",
    response_model=CausesAnswer,
    responses=as_files(),
)
def read_regression_causes(
    query: Annotated[CausesQuery, Depends(at_once(CausesQuery))],
    conn: Reader,
    project_ids: ProjectIds,
    form: FormatParameter = "json",
) -> CausesAnswer | Response:
    """List what fires by its cause, with one total cost for each.

    A release that made a phase slower in three cohorts is one cause. Costs are added once: of a
    cohort and one that it is part of the wider counts, and of time to start and its phases the
    phases, with what the rest costs more than these.
    """
    real = regressions.every(conn, project_ids, query.of(Verdict.REGRESSION))
    small = regressions.every(conn, project_ids, query.of(Verdict.SMALL))
    answer = CausesAnswer(
        causes=_causes(real),
        total=_cost(real),
        small=len(small),
        small_cost=_cost(small),
    )
    return listed(form, answer, answer.causes, of=CauseAnswer, name="causes")


def _causes(stored: Iterable[Regression]) -> list[CauseAnswer]:
    by_project: dict[str, list[Regression]] = {}
    for regression in stored:
        by_project.setdefault(regression.project, []).append(regression)
    by_cause: dict[tuple[str, CommonCause], list[Regression]] = {}
    for project, of_project in by_project.items():
        shared = causes_of([(each.standing.finding, each.attribution) for each in of_project])
        for cause, regression in zip(shared, of_project, strict=True):
            by_cause.setdefault((project, cause), []).append(regression)
    causes = [_cause(project, cause, same) for (project, cause), same in by_cause.items()]
    return sorted(causes, key=lambda cause: (-(cause.cost.gpu_hours_per_week or 0), cause.findings))


def _cause(project: str, cause: CommonCause, same: Sequence[Regression]) -> CauseAnswer:
    ordered = sorted(same, key=lambda each: (-(_hours(each.standing.finding) or 0), each.id))
    return CauseAnswer.of(
        ordered[0].series.subject,
        project=project,
        dimension=cause.dimension,
        value=cause.value,
        onset_at=min(each.standing.onset_us for each in same),
        cost=_cost(same),
        cohorts=list(dict.fromkeys(each.series.cohort for each in ordered)),
        findings=[each.id for each in ordered],
    )


def _hours(finding: Finding) -> float | None:
    return finding.impact.gpu_hours_per_week


def _cost(stored: Iterable[Regression]) -> TotalCostAnswer:
    """Add up the costs of findings, each project's once."""
    by_project: dict[int, list[Finding]] = {}
    for each in stored:
        by_project.setdefault(each.project_id, []).append(each.standing.finding)
    impacts = [finding.impact for same in by_project.values() for finding in counted_once(same)]
    hours = [each.gpu_hours_per_week for each in impacts if each.gpu_hours_per_week is not None]
    costs = [each.cost_per_week for each in impacts if each.cost_per_week is not None]
    is_priced = len(costs) == len(impacts)
    return TotalCostAnswer.of(
        impacts,
        gpu_hours_per_week=sum(hours) if hours or not impacts else None,
        cost_per_week=sum(costs) if is_priced and costs else None,
        currency=next((each.currency for each in impacts if each.currency), ""),
    )
