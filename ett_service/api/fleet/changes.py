"""The change ledger: what was done to the fleet, and what is associated with it."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from sqlalchemy import Connection

from ett_service.api.deps import AppParts, Reader, only_declared_parameters
from ett_service.api.fleet.changes_answers import (
    CAUTION,
    ChangeAnswer,
    ChangesAnswer,
    EffectAnswer,
    EttEffectAnswer,
    MarkedAnswer,
    MeasuredAnswer,
    SpanAnswer,
    StepAnswer,
    WaterfallAnswer,
)
from ett_service.api.fleet.question import AskedScope, AskedWindow
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.parameters import Text
from ett_service.api.problems import Kind, Problem, declared
from ett_service.api.rendering import interval_answer, maybe_instant, maybe_seconds, seconds
from ett_service.core.events import MarkerKind
from ett_service.core.fleet.totals import ratio
from ett_service.core.intervals import DAY_US, SECOND_US, rfc3339
from ett_service.fleet.changes import (
    REACH_US,
    STEPS,
    Change,
    Effect,
    EttEffect,
    MeasuredDurations,
    Step,
    changes,
    waterfall,
)
from ett_service.fleet.scope import Scope, Window
from ett_service.fleet.uncertainty import CONFIDENCE
from ett_service.storage.record.markers import KeptMarker, MarkerFilter, markers

router = APIRouter(
    prefix="/v1/fleet", tags=["fleet"], dependencies=[Depends(only_declared_parameters)]
)

MOST_CHANGES = 50
_MOST_MARKERS = 1_000  #: that may cut the time around another short, or are steps

_REACH_DAYS = REACH_US // DAY_US


class AskedChanges:
    """Which markers are looked at, and how far around them."""

    def __init__(
        self,
        kind: Annotated[MarkerKind | None, Query(description="Of this kind alone.")] = None,
        marker: Annotated[Text, Query(description="The id of one alone.")] = None,
        reach_days: Annotated[
            int, Query(ge=1, le=90, description="How far before and after a marker is looked.")
        ] = _REACH_DAYS,
        limit: Annotated[int, Query(ge=1, le=MOST_CHANGES)] = 20,
    ) -> None:
        self.kind, self.marker, self.limit = kind, marker, limit
        self.reach_us = reach_days * DAY_US

    def read(self, conn: Connection, scope: Scope, window: Window) -> list[KeptMarker]:
        """Read the markers in the window and within reach of it, the latest first."""
        wanted = MarkerFilter(
            from_us=window.from_us - self.reach_us,
            to_us=window.to_us + self.reach_us,
            kind=self.kind,
        )
        return markers(conn, scope.project_ids, wanted, limit=_MOST_MARKERS)

    def chosen(self, among: Sequence[KeptMarker], window: Window) -> list[KeptMarker]:
        """Return those that are asked for."""
        return [
            kept
            for kept in among
            if window.from_us <= kept.marker.at < window.to_us
            and self.marker in (None, kept.marker.id)
        ]

    def steps(self, chosen: Sequence[KeptMarker]) -> list[KeptMarker]:
        """Return those of them that are steps of the waterfall."""
        kinds = STEPS if self.kind is None else (self.kind,)
        return [kept for kept in chosen if kept.marker.kind in kinds]


@router.get(
    "/changes",
    operation_id="list_changes",
    response_model=ChangesAnswer,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def list_changes(
    scope: AskedScope,
    window: AskedWindow,
    asked: Annotated[AskedChanges, Depends()],
    conn: Reader,
    parts: AppParts,
    form: FormatParameter = "json",
) -> ChangesAnswer | Response:
    """Tell what the markers in a window are associated with, and how the time to start went.

    What began in the time before a marker is compared with what began after it, so far as no
    marker of the same kind and labels lies between. Labels that are dimensions narrow the jobs;
    `code_version` does neither. Steps of the waterfall are deploys and launches, unless `kind` says
    otherwise.
    """
    among = asked.read(conn, scope, window)
    chosen = asked.chosen(among, window)
    if asked.marker is not None and not chosen:
        raise Problem(Kind.NOT_FOUND, "No such marker in this window.")
    shown = chosen[: asked.limit]
    found = changes(conn, scope, shown, among, parts.now_us(), asked.reach_us)
    answer = ChangesAnswer(
        **_span(window),
        where={name: sorted(values) for name, values in sorted(scope.where.items())},
        exclusions=scope.exclusions,
        confidence=CONFIDENCE,
        changes=[_change(change) for change in found],
        more_changes=len(chosen) > len(shown),
        waterfall=_waterfall(waterfall(conn, scope, window, asked.steps(chosen))),
        note=CAUTION,
    )
    return listed(form, answer, answer.changes, of=ChangeAnswer, name="changes")


def _span(window: Window) -> dict[str, Any]:
    return {"from": rfc3339(window.from_us), "to": rfc3339(window.to_us)}


def _marked(kept: KeptMarker) -> MarkedAnswer:
    marker = kept.marker
    return MarkedAnswer(
        id=marker.id,
        project=kept.project,
        at=rfc3339(marker.at),
        end=maybe_instant(marker.end),
        kind=marker.kind,
        title=marker.title,
        labels=dict(marker.labels),
    )


def _change(change: Change) -> ChangeAnswer:
    return ChangeAnswer(
        marker=_marked(change.marker),
        before=SpanAnswer(**_span(change.before)),
        after=SpanAnswer(**_span(change.after)),
        effects=[_effect(effect) for effect in change.effects],
        ett=_ett(change.ett),
    )


def _effect(effect: Effect) -> EffectAnswer:
    return EffectAnswer(
        measure=effect.kind,
        before=_measured(effect.before),
        after=_measured(effect.after),
        difference_seconds=maybe_seconds(effect.mean_us),
        difference_interval=interval_answer(effect.mean_us_interval, 1 / SECOND_US),
        median_difference_seconds=maybe_seconds(effect.median_us),
        median_difference_interval=interval_answer(effect.median_us_interval, 1 / SECOND_US),
    )


def _measured(measured: MeasuredDurations) -> MeasuredAnswer:
    return MeasuredAnswer(
        n=measured.n,
        jobs=measured.jobs,
        mean_seconds=maybe_seconds(measured.mean_us),
        median_seconds=maybe_seconds(measured.median_us),
    )


def _ett(effect: EttEffect) -> EttEffectAnswer:
    return EttEffectAnswer(
        before=ratio(*effect.before_us),
        after=ratio(*effect.after_us),
        points=None if effect.ratio is None else 100 * effect.ratio,
        points_interval=interval_answer(effect.ratio_interval, 100),
    )


def _waterfall(steps: Sequence[Step]) -> WaterfallAnswer:
    return WaterfallAnswer(
        measure="time_to_start",
        steps=[
            StepAnswer(
                marker=None if step.marker is None else _marked(step.marker),
                **_span(step.window),
                n=step.n,
                mean_seconds=maybe_seconds(step.mean_us),
                step_seconds=seconds(step.step_us),
            )
            for step in steps
        ],
        change_seconds=seconds(sum(step.step_us for step in steps)),
    )
