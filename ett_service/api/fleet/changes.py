"""The change ledger: markers, and the differences that are associated with them."""

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field
from sqlalchemy import Connection

from ett_service.api.answers import (
    Answer,
    ComputedAnswer,
    Instant,
    IntervalAnswer,
    Of,
    Points,
    Ratio,
    Seconds,
    SortedValues,
    end_of,
    scaled,
    start_of,
)
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import (
    Reader,
    ScopeParameter,
    State,
    Text,
    WindowParameter,
    at_once,
    only_declared_parameters,
)
from ett_service.api.problems import Problem, ProblemKind
from ett_service.api.record.markers import MarkedAnswer
from ett_service.core.events import MarkerKind
from ett_service.core.fleet.totals import ratio
from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.fleet.changes import REACH_US, STEPS, changes, drawn, sides, waterfall
from ett_service.fleet.scope import Exclusions, Scope, Window
from ett_service.fleet.uncertainty import CONFIDENCE
from ett_service.storage.fleet import occurrences
from ett_service.storage.fleet.sample import Sample
from ett_service.storage.record.markers import KeptMarker, MarkerFilter, markers

router = APIRouter(
    prefix="/v1/fleet", tags=["fleet"], dependencies=[Depends(only_declared_parameters)]
)

MOST_CHANGES = 50
_MOST_MARKERS = 1_000  #: that may cut the time around another short, or are steps

CAUTION = (
    "A difference is associated with a marker, not shown to be caused by it: other things change "
    "at the same time."
)


def note(sample: Sample | None) -> str:
    """Say how far the numbers can be trusted."""
    if sample is None:
        return CAUTION
    jobs = f"{len(sample.keys):,} of {sample.drawn_from:,} jobs"
    return f"{CAUTION} Durations and intervals are of {jobs}, drawn at random; ETT% is of all."


IntervalInSeconds = Annotated[IntervalAnswer | None, scaled(1 / SECOND_US)]


class SpanAnswer(Answer):
    """A window of time."""

    from_at: Instant = start_of()
    to: Instant = end_of()


class MeasuredAnswer(Answer):
    """The durations on one side of a marker."""

    n: int
    jobs: int = Field(description="The number of jobs that they belong to.")
    mean_seconds: Seconds | None = Field(description="Null where n is 0.")
    median_seconds: Seconds | None = Field(description="Null where n is 0.")


class EffectAnswer(Answer):
    """One duration on both sides."""

    measure: occurrences.Kind = Field(
        validation_alias="kind",
        description="`time_to_start` of jobs, `time_to_recover` of recoveries after failures, "
        "`pt2_compile` of attempts that compile and reach a loop, `checkpoint_blocking` of "
        "attempts, as the mean of their blocking saves.",
    )
    before: MeasuredAnswer
    after: MeasuredAnswer
    difference_seconds: Seconds | None = Field(
        validation_alias="mean_us",
        description="Difference of the means, after minus before; null where a side is empty.",
    )
    difference_interval: IntervalInSeconds = Field(
        validation_alias="mean_us_interval",
        description="Null where a side has fewer than two jobs.",
    )
    median_difference_seconds: Seconds | None = Field(
        validation_alias="median_us",
        description="Difference of the medians, which a few long durations affect less.",
    )
    median_difference_interval: IntervalInSeconds = Field(
        validation_alias="median_us_interval",
        description="Null, too, with more than 100,000 durations on a side.",
    )


class EttEffectAnswer(ComputedAnswer):
    """ETT% on both sides, weighted by accelerators, in full hours.

    Where hours were pruned and jobs were drawn, in full days.
    """

    before: Annotated[Ratio, Of(lambda effect: ratio(*effect.before_us))]
    after: Annotated[Ratio, Of(lambda effect: ratio(*effect.after_us))]
    points: Points | None = Field(
        validation_alias="ratio",
        description="Difference in percentage points; null where a side has no time.",
    )
    points_interval: Annotated[IntervalAnswer | None, scaled(100)] = Field(
        validation_alias="ratio_interval"
    )


class ChangeAnswer(Answer):
    """A marker, and the differences that are associated with it."""

    marker: MarkedAnswer
    before: SpanAnswer
    after: SpanAnswer
    effects: list[EffectAnswer]
    ett: EttEffectAnswer


class StepAnswer(Answer):
    """From one marker to the next."""

    marker: MarkedAnswer | None = Field(description="Null for the time before the first marker.")
    from_at: Instant = start_of("window")
    to: Instant = end_of("window")
    n: int
    mean_seconds: Seconds | None = Field(description="Null where no job started.")
    step_seconds: Seconds = Field(description="The change of the mean; 0 where no job started.")


class WaterfallAnswer(ComputedAnswer):
    """The mean time to start from marker to marker. The steps sum to its whole change."""

    measure: Annotated[Literal["time_to_start"], Of(lambda _: "time_to_start")]
    steps: list[StepAnswer]
    change_seconds: Annotated[
        Seconds, Of(lambda source: sum(step.step_us for step in source.steps))
    ]


class SampleAnswer(ComputedAnswer):
    """Of a large fleet durations, and all intervals, are those of jobs drawn at random."""

    jobs: int = Field(validation_alias="drawn_from", description="The jobs that there were.")
    jobs_read: Annotated[int, Of(lambda sample: len(sample.keys))]


class ChangesAnswer(ComputedAnswer):
    """The change ledger of a window."""

    from_at: Instant = start_of()
    to: Instant = end_of()
    where: Annotated[dict[str, list[str]], SortedValues]
    exclusions: Exclusions
    confidence: Annotated[float, Of(lambda _: CONFIDENCE)] = Field(
        description="Level of the intervals: a bootstrap over jobs."
    )
    sample: SampleAnswer | None = Field(
        description="Null where every job was read. ETT% is of all jobs in any case."
    )
    changes: list[ChangeAnswer] = Field(description="The latest marker first.")
    more_changes: bool = Field(description="Whether earlier markers were left out.")
    waterfall: WaterfallAnswer
    note: Annotated[str, Of(lambda source: note(source.sample))]


class ChangesQuery:
    """Which markers, and the time around them."""

    def __init__(
        self,
        kind: Annotated[MarkerKind | None, Query(description="Only markers of this kind.")] = None,
        marker: Annotated[Text, Query(description="Only the marker of this id.")] = None,
        reach_days: Annotated[
            int, Query(ge=1, le=90, description="Days to compare before and after a marker.")
        ] = REACH_US // DAY_US,
        limit: Annotated[int, Query(ge=1, le=MOST_CHANGES)] = 20,
    ) -> None:
        self.kind, self.marker, self.limit = kind, marker, limit
        self.reach_us = reach_days * DAY_US

    def read(self, conn: Connection, scope: Scope, window: Window) -> list[KeptMarker]:
        """Read the markers in the window and within reach of it, the latest first."""
        marker_filter = MarkerFilter(
            from_us=window.from_us - self.reach_us,
            to_us=window.to_us + self.reach_us,
            kind=self.kind,
        )
        return markers(conn, scope.project_ids, marker_filter, limit=_MOST_MARKERS)

    def chosen(self, among: Sequence[KeptMarker], window: Window) -> list[KeptMarker]:
        """Return the markers in the window, or the one of the given id."""
        return [
            stored
            for stored in among
            if window.from_us <= stored.marker.at < window.to_us
            and self.marker in (None, stored.marker.id)
        ]

    def steps(self, chosen: Sequence[KeptMarker]) -> list[KeptMarker]:
        """Return the markers that are steps of the waterfall."""
        kinds = STEPS if self.kind is None else (self.kind,)
        return [stored for stored in chosen if stored.marker.kind in kinds]


@router.get(
    "/changes", operation_id="list_changes", response_model=ChangesAnswer, responses=as_files()
)
def list_changes(
    scope: ScopeParameter,
    window: WindowParameter,
    query: Annotated[ChangesQuery, Depends(at_once(ChangesQuery))],
    conn: Reader,
    state: State,
    form: FormatParameter = "json",
) -> ChangesAnswer | Response:
    """List the markers in a window with the differences before and after, and a waterfall.

    The time before a marker is compared with the time after it, up to the next marker of the same
    kind and labels. Labels that are dimensions restrict the jobs; `code_version` does not. The
    steps of the waterfall are deploys and launches, or markers of `kind`.
    """
    among = query.read(conn, scope, window)
    chosen = query.chosen(among, window)
    if query.marker is not None and not chosen:
        raise Problem(ProblemKind.NOT_FOUND, "No such marker in this window.")
    shown, now_us = chosen[: query.limit], state.now_us()
    windows = [window, *chain(*(sides(each, among, now_us, query.reach_us) for each in shown))]
    sample = drawn(conn, scope, windows)
    steps = waterfall(conn, scope, window, query.steps(chosen), sample)
    answer = ChangesAnswer.of(
        scope,
        window,
        sample=sample,
        changes=list(changes(conn, scope, shown, among, now_us, query.reach_us, sample=sample)),
        more_changes=len(chosen) > len(shown),
        waterfall=WaterfallAnswer.of(steps=steps),
    )
    return listed(form, answer, answer.changes, of=ChangeAnswer, name="changes")
