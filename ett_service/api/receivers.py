"""Receivers: whom a project has told of its regressions, and whether that works."""

import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from ett_service.api.asked import described, read_asked
from ett_service.api.deps import (
    AdministeredId,
    AdminKey,
    AppParts,
    ListedProjectId,
    ListingKey,
    Reader,
    only_declared_parameters,
)
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.parts import Parts
from ett_service.api.problems import Kind, Problem, declared
from ett_service.api.receiver_answers import (
    ASKED,
    MadeReceiver,
    NewReceiver,
    ReceiverAnswer,
    ReceiverList,
    RotatedReceiver,
    TrialAnswer,
)
from ett_service.api.receiver_rendering import of_settings, rendered
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.guard import Refused
from ett_service.notifications.notice import test_message
from ett_service.notifications.receiver import Receiver, Secret
from ett_service.notifications.sender import Outcome
from ett_service.storage.engine.seal import CannotUnseal, NoSecretKey
from ett_service.storage.jobs.listing import project_name
from ett_service.storage.receivers import deliveries, receivers
from ett_service.storage.receivers.receivers import BadReceiver, StoredReceiver
from ett_service.storage.record.keys import Key

router = APIRouter(
    prefix="/v1/receivers", tags=["receivers"], dependencies=[Depends(only_declared_parameters)]
)

Name = Annotated[str, Path(description="The receiver's name.", pattern="^[a-z0-9-]{1,63}$")]


@router.get(
    "",
    operation_id="list_receivers",
    response_model=ReceiverList,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def list_receivers(
    key: ListingKey,
    conn: Reader,
    project_id: ListedProjectId,
    parts: AppParts,
    form: FormatParameter = "json",
) -> ReceiverList | Response:
    """List the receivers of a project; with `admin` those of the settings, too."""
    directory, now_us = parts.telling.directory, parts.now_us()
    counts = deliveries.counts(conn)
    named = directory.of_settings if "admin" in key.scopes else ()
    health = receivers.health_of_settings(conn)
    found = [of_settings(one, health.get(one.name), counts) for one in named]
    found += [
        rendered(one, directory, counts, now_us) for one in receivers.listing(conn, project_id)
    ]
    return listed(form, ReceiverList(receivers=found), found, of=ReceiverAnswer, name="receivers")


@router.post(
    "",
    operation_id="create_receiver",
    status_code=201,
    responses=declared(400, 401, 403, 404, 408, 409, 413, 415, 422, 503),
    openapi_extra=described(NewReceiver, ASKED),
)
async def create_receiver(
    key: AdminKey, project_id: AdministeredId, request: Request, parts: AppParts
) -> MadeReceiver:
    """Make a receiver. What its messages are signed with is in the answer, and nowhere else.

    Its address is looked at now and before each message: nothing is sent to one that is not
    public, unless `webhook_allow` names its network.
    """
    asked = await read_asked(request, parts, NewReceiver)
    return await run_in_threadpool(_create, parts, project_id, key, asked)


@router.delete(
    "/{name}",
    operation_id="delete_receiver",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 409, 422, 503),
)
def delete_receiver(name: Name, project_id: AdministeredId, parts: AppParts) -> None:
    """Forget a receiver; what it was still to be sent is given up."""
    if not parts.store.write(lambda conn: receivers.remove(conn, project_id, name)):
        raise _unknown(parts, name)


@router.post(
    "/{name}/test",
    operation_id="test_receiver",
    responses=declared(401, 403, 404, 409, 422, 503),
)
def try_receiver(name: Name, project_id: AdministeredId, parts: AppParts) -> TrialAnswer:
    """Send a made-up regression that is marked as a test, and tell how that went."""
    now_us = parts.now_us()
    with parts.store.reading() as conn:
        receiver = _found(parts, conn, project_id, name, now_us)
        project = project_name(conn, project_id)
    notice = test_message(project_id, project, parts.telling.public_url, now_us)
    outcome = parts.telling.sender().send(receiver, f"msg_{secrets.token_hex(16)}", notice, now_us)
    return TrialAnswer(
        delivered=outcome.is_success,
        outcome=_in_words(outcome),
        status=outcome.status,
        said=outcome.said,
        took_seconds=outcome.took_us / SECOND_US,
    )


@router.post(
    "/{name}/rotate",
    operation_id="rotate_receiver",
    responses=declared(401, 403, 404, 409, 422, 503),
)
def rotate_receiver(name: Name, project_id: AdministeredId, parts: AppParts) -> RotatedReceiver:
    """Give a receiver a new secret. For a day the former one signs, too."""
    now_us = parts.now_us()

    def rotate(conn: Connection) -> str:
        kept = _kept(parts, conn, project_id, name)
        if FORMATS[kept.format].secret is not Secret.SIGNING_KEY:
            raise Problem(
                Kind.CONFLICT, "Messages of this format are not signed. Delete it and add it again."
            )
        return receivers.rotate(conn, kept, keyring=parts.telling.directory.keyring, now_us=now_us)

    try:
        secret = parts.store.write(rotate)
    except NoSecretKey as error:
        raise _unsealable(error) from error
    until = rfc3339(now_us + receivers.OVERLAP_US)
    return RotatedReceiver(name=name, secret=secret, both_sign_until=until)


def _create(parts: Parts, project_id: int, key: Key, asked: NewReceiver) -> MadeReceiver:
    secret = FORMATS[asked.format].secret
    if (secret is Secret.ROUTING_KEY) != bool(asked.routing_key):
        errors = [{"code": "bad_routing_key", "pointer": "/routing_key"}]
        detail = "PagerDuty needs a routing key, and no other format takes one."
        raise Problem(Kind.VALIDATION_FAILED, detail, errors=errors)
    if any(one.name == asked.name for one in parts.telling.directory.of_settings):
        raise Problem(Kind.CONFLICT, "A receiver of the settings has this name.")
    _check(parts, project_id, asked)
    signing = receivers.new_secret() if secret is Secret.SIGNING_KEY else None
    new = receivers.NewReceiver(
        name=asked.name,
        url=asked.url,
        format=asked.format,
        secret=signing or asked.routing_key,
        cohort={str(name): value for name, value in asked.where.items()},
    )
    now_us, keyring = parts.now_us(), parts.telling.directory.keyring
    try:
        parts.store.write(
            lambda conn: receivers.add(
                conn, project_id, new, keyring=keyring, made_by=key.prefix, now_us=now_us
            )
        )
    except BadReceiver as error:
        raise Problem(Kind.CONFLICT, str(error)) from error
    except NoSecretKey as error:
        raise _unsealable(error) from error
    return MadeReceiver(name=asked.name, secret=signing)


def _check(parts: Parts, project_id: int, asked: NewReceiver) -> None:
    try:
        parts.telling.sender().check(project_id, asked.url)
    except Refused as error:
        errors = [{"code": "bad_address", "pointer": "/url"}]
        raise Problem(Kind.VALIDATION_FAILED, str(error), errors=errors) from None


def _found(parts: Parts, conn: Connection, project_id: int, name: str, now_us: int) -> Receiver:
    owner = owner_of(parts, conn, project_id, name)
    try:
        found = parts.telling.directory.find(conn, owner, name, now_us)
    except (CannotUnseal, NoSecretKey) as error:
        raise _unsealable(error) from error
    if found is None:
        raise Problem(Kind.NOT_FOUND, "No such receiver.")
    return found


def owner_of(parts: Parts, conn: Connection, project_id: int, name: str) -> int:
    """Return whose receiver *name* is: the project's, or 0 for the settings'.

    Raises:
        Problem: 404.
    """
    if receivers.get(conn, project_id, name) is not None:
        return project_id
    named = [one for one in parts.telling.directory.of_settings if one.name == name]
    if not named:
        raise Problem(Kind.NOT_FOUND, "No such receiver.")
    return named[0].owner


def _kept(parts: Parts, conn: Connection, project_id: int, name: str) -> StoredReceiver:
    kept = receivers.get(conn, project_id, name)
    if kept is None:
        raise _unknown(parts, name)
    return kept


def _unknown(parts: Parts, name: str) -> Problem:
    if any(one.name == name for one in parts.telling.directory.of_settings):
        return Problem(Kind.CONFLICT, "It stands in the settings; change it there.")
    return Problem(Kind.NOT_FOUND, "No such receiver.")


def _unsealable(error: CannotUnseal | NoSecretKey) -> Problem:
    return Problem(Kind.CONFLICT, f"{error} {error.hint}")


def _in_words(outcome: Outcome) -> str:
    seconds = f"{outcome.took_us / SECOND_US:.2f} s"
    if outcome.status is None:
        return f"It was not told: {outcome.said}"
    if outcome.is_success:
        return f"It answered {outcome.status} within {seconds}."
    return f"It refused: it answered {outcome.status} within {seconds}."
