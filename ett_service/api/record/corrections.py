"""Corrections of a job by people: verdicts on its failures, and exclusions of its time."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from ett_service.api import pagination as cursors
from ett_service.api.deps import (
    AppParts,
    CorrectedProjectId,
    CorrectingKey,
    Job,
    ProjectId,
    Reader,
    only_declared_parameters,
)
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.parameters import CursorText
from ett_service.api.problems import Kind, Problem, declared
from ett_service.api.record.correction_answers import (
    VERDICT,
    CorrectionAnswer,
    CorrectionPage,
    ExclusionsAnswer,
    correction_answer,
)
from ett_service.api.rendering import exclusion_answer
from ett_service.api.sent import described_body, members, read_sent, refused_window
from ett_service.api.state import Parts
from ett_service.core.ledger.failures import FailureVerdict
from ett_service.core.ledger.results import Exclusion
from ett_service.core.words import ORIGIN_OF_CAUSE
from ett_service.ingest.requests import NewExclusion, NewVerdict, NewWindow, frame
from ett_service.ingest.text import Frame
from ett_service.storage.record import corrections, events
from ett_service.storage.record.corrections import NoFailure, NothingThere
from ett_service.storage.record.dirty_marks import JobKey

router = APIRouter(
    prefix="/v1/jobs/{job}", tags=["corrections"], dependencies=[Depends(only_declared_parameters)]
)

T = TypeVar("T")

_PLACE = tuple[cursors.Whole]

Number = Annotated[
    int, Path(ge=0, le=(1 << 31) - 1, description="The attempt's place, from 0.", examples=[0])
]

_EXCLUSION: dict[str, Any] = {
    "from": "2026-03-01T08:00:00Z",
    "to": "2026-03-01T10:00:00Z",
    "why": VERDICT["why"],
}


@router.get(
    "/corrections",
    operation_id="list_corrections",
    response_model=CorrectionPage,
    responses={**as_files(paged=True), **declared(401, 403, 404, 422, 503)},
)
def list_corrections(
    job: Job,
    conn: Reader,
    project_id: ProjectId,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: CursorText = None,
    form: FormatParameter = "json",
) -> CorrectionPage | Response:
    """List what people corrected about a job, what was taken back included."""
    (after,) = (0,) if cursor is None else cursors.read(cursor, _PLACE)
    found = corrections.history(conn, JobKey(project_id, job), limit=limit + 1, after=after)
    if not found and not events.job_exists(conn, project_id, job):
        raise Problem(Kind.NOT_FOUND, "No such job.")
    shown, more = found[:limit], len(found) > limit
    page = CorrectionPage(
        job=job,
        corrections=[correction_answer(one) for one in shown],
        next_cursor=cursors.write((shown[-1].id,)) if more else None,
    )
    return listed(
        form,
        page,
        page.corrections,
        of=CorrectionAnswer,
        name="corrections",
        next_cursor=page.next_cursor,
    )


@router.put(
    "/attempts/{number}/verdict",
    operation_id="put_verdict",
    responses=declared(400, 401, 403, 404, 408, 409, 413, 415, 422, 503),
    openapi_extra=described_body(NewVerdict, VERDICT),
)
async def put_verdict(
    request: Request,
    job: Job,
    number: Number,
    key: CorrectingKey,
    project_id: CorrectedProjectId,
    parts: AppParts,
) -> CorrectionAnswer:
    """Say what a failure was, in place of the rules and of any verdict before.

    It stays with the attempt, whose `number` may move when an earlier one becomes known.
    What the rules say is kept beside it. An attempt that did not fail has no cause: 409.
    """
    sent = await read_sent(request, parts, NewVerdict)
    now_us = parts.now_us()
    said = members(sent, frame(now_us))
    said.setdefault("origin", ORIGIN_OF_CAUSE[sent.cause])
    verdict = FailureVerdict(**said, made_by=key.prefix, made_at=now_us)
    put = await run_in_threadpool(
        _write,
        parts,
        lambda conn: corrections.put_verdict(conn, JobKey(project_id, job), number, verdict),
    )
    return correction_answer(put)


@router.delete(
    "/attempts/{number}/verdict",
    operation_id="take_back_verdict",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 422, 503),
)
def take_back_verdict(
    job: Job, number: Number, key: CorrectingKey, project_id: CorrectedProjectId, parts: AppParts
) -> None:
    """Let the rules judge a failure again; the verdict stays in the history."""
    of, by = JobKey(project_id, job), _by(key.prefix, parts)
    if not _write(parts, lambda conn: corrections.take_back_verdict(conn, of, number, **by)):
        raise Problem(Kind.NOT_FOUND, "No verdict stands.")


@router.put(
    "/exclusion",
    operation_id="put_exclusion",
    responses=declared(400, 401, 403, 404, 408, 413, 415, 422, 503),
    openapi_extra=described_body(NewExclusion, _EXCLUSION),
)
async def put_exclusion(
    request: Request,
    job: Job,
    key: CorrectingKey,
    project_id: CorrectedProjectId,
    parts: AppParts,
) -> ExclusionsAnswer:
    """Leave time of a job out of the fleet's numbers, in place of any exclusion before.

    `from` and `to` name a window, `windows` several; without any it is the whole job. An
    instant may lie up to a year ahead.
    """
    sent = await read_sent(request, parts, NewExclusion)
    now_us = parts.now_us()
    windows = _windows(sent, frame(now_us))
    by = _by(key.prefix, parts)
    put = await run_in_threadpool(
        _write,
        parts,
        lambda conn: corrections.put_exclusion(
            conn, JobKey(project_id, job), windows, why=sent.why, **by
        ),
    )
    return ExclusionsAnswer(job=job, exclusions=[exclusion_answer(one) for one in put])


@router.delete(
    "/exclusion",
    operation_id="take_back_exclusion",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 422, 503),
)
def take_back_exclusion(
    job: Job, key: CorrectingKey, project_id: CorrectedProjectId, parts: AppParts
) -> None:
    """Let all of a job count again; the exclusion stays in the history."""
    of, by = JobKey(project_id, job), _by(key.prefix, parts)
    if not _write(parts, lambda conn: corrections.take_back_exclusion(conn, of, **by)):
        raise Problem(Kind.NOT_FOUND, "No exclusion stands.")


def _by(prefix: str, parts: Parts) -> dict[str, Any]:
    return {"made_by": prefix, "now_us": parts.now_us()}


def _write(parts: Parts, work: Callable[[Connection], T]) -> T:
    try:
        done = parts.store.write(work)
    except NothingThere as error:
        raise Problem(Kind.NOT_FOUND, str(error)) from error
    except NoFailure as error:
        raise Problem(Kind.CONFLICT, str(error)) from error
    if parts.worker is not None:
        parts.worker.wake()
    return done


def _windows(sent: NewExclusion, readers: Frame) -> list[Exclusion]:
    said = members(sent, readers)
    given: list[NewWindow] = said.pop("windows", None) or []
    del said["why"]
    if given and said:
        pointer = f"/{'from' if 'from_at' in said else 'to'}"
        errors = [{"code": "one_or_the_other", "pointer": pointer}]
        raise Problem(Kind.VALIDATION_FAILED, "Name a window or `windows`.", errors=errors)
    if not given:
        return [_window(said, "")]
    places = [f"/windows/{place}" for place in range(len(given))]
    return [
        _window(members(each, readers, place), place)
        for each, place in zip(given, places, strict=True)
    ]


def _window(said: dict[str, int], pointer: str) -> Exclusion:
    window = Exclusion(**said)
    if window.from_at is not None and window.to_at is not None and window.to_at <= window.from_at:
        raise refused_window(f"{pointer}/to")
    return window
