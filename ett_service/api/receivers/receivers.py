"""Receivers: who is notified of a project's regressions, and whether that works."""

import secrets
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import ConfigDict, Field, JsonValue
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from ett_service.api.answers import Words
from ett_service.api.bodies import (
    FormatParameter,
    RequestBody,
    as_files,
    described,
    listed,
    read_model,
)
from ett_service.api.deps import (
    AdministeredId,
    ListedProjectId,
    ListingKey,
    Reader,
    State,
    only_declared_parameters,
)
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.receivers.answers import (
    MadeReceiver,
    ReceiverAnswer,
    ReceiverList,
    RotatedReceiver,
    TrialAnswer,
)
from ett_service.api.record.audit import Acts, AdminActs
from ett_service.api.state import AppState
from ett_service.core.dimensions import Dimension
from ett_service.core.intervals import SECOND_US
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.guard import Refused
from ett_service.notifications.notice import Receiver, Secret, test_message
from ett_service.notifications.sender import Outcome
from ett_service.storage.engine.seal import CannotUnseal, NoSecretKey
from ett_service.storage.jobs.listing import project_name
from ett_service.storage.receivers import deliveries, receivers
from ett_service.storage.receivers.receivers import BadReceiver, StoredReceiver
from ett_service.storage.record.audit import Action, AdminAct

router = APIRouter(
    prefix="/v1/receivers", tags=["receivers"], dependencies=[Depends(only_declared_parameters)]
)


def needs_routing_key(form: str) -> bool:
    """Whether messages of this format go by a routing key."""
    return FORMATS[form].secret is Secret.ROUTING_KEY


Name = Annotated[str, Path(description="The receiver's name.", pattern="^[a-z0-9-]{1,63}$")]


#: A routing key stands where the format needs one, and nowhere else.
_ROUTING_KEYS: list[JsonValue] = [
    {
        "properties": {
            "format": {"enum": [each for each in FORMATS if needs_routing_key(each)]},
            "routing_key": {"minLength": 1},
        },
        "required": ["format", "routing_key"],
    },
    {
        "properties": {
            "format": {"enum": [each for each in FORMATS if not needs_routing_key(each)]},
            "routing_key": {"maxLength": 0},
        }
    },
]


class ReceiverRequest(RequestBody):
    """The receiver to create."""

    model_config = ConfigDict(json_schema_extra={"anyOf": _ROUTING_KEYS})

    name: str = Field(
        pattern="^[a-z0-9][a-z0-9-]{0,62}$", description="Up to 63 of a-z, 0-9 and `-`."
    )
    url: str = Field(
        min_length=1,
        max_length=2_000,
        repr=False,
        description=(
            "Where messages are posted: https, at a public address or one in `webhook_allow`. It "
            "is stored encrypted, and never shown again."
        ),
    )
    format: Annotated[str, Words(tuple(FORMATS))] = "generic"
    where: dict[Dimension, str] = Field(
        default_factory=dict,
        description="Notify only of cohorts with these values. A cohort without one of these "
        "dimensions matches, too.",
    )
    routing_key: str = Field(
        default="",
        max_length=200,
        repr=False,
        description="Routing key of a PagerDuty integration (Events API v2), for no other format.",
    )


@router.get("", operation_id="list_receivers", response_model=ReceiverList, responses=as_files())
def list_receivers(
    key: ListingKey,
    conn: Reader,
    project_id: ListedProjectId,
    state: State,
    form: FormatParameter = "json",
) -> ReceiverList | Response:
    """List the receivers of a project; with `admin`, also those of the settings."""
    directory, now_us = state.notifications.directory, state.now_us()
    counts = deliveries.counts(conn)
    of_settings = directory.of_settings if "admin" in key.scopes else ()
    health = receivers.health_of_settings(conn)
    answers = [
        ReceiverAnswer.of_settings(
            receiver,
            health.get(receiver.name),
            counts.get((receiver.owner, receiver.name), {}),
            now_us,
        )
        for receiver in of_settings
    ]
    answers += [
        ReceiverAnswer.of_project(
            receiver, directory, counts.get((project_id, receiver.name), {}), now_us
        )
        for receiver in receivers.listing(conn, project_id)
    ]
    page = ReceiverList(receivers=answers)
    return listed(form, page, answers, of=ReceiverAnswer, name="receivers")


@router.post(
    "",
    operation_id="create_receiver",
    status_code=201,
    responses=declared(400, 401, 403, 404, 408, 409, 413, 415, 422, 503),
    openapi_extra=described(ReceiverRequest),
)
async def create_receiver(
    acts: AdminActs, project_id: AdministeredId, request: Request, state: State
) -> MadeReceiver:
    """Create a receiver. The answer is the only place that shows the secret of its signatures.

    The address is checked now and before each message. Nothing is sent to an address that is not
    public, unless `webhook_allow` names its network.
    """
    body = await read_model(request, state, ReceiverRequest)
    return await run_in_threadpool(_create, acts, project_id, body)


@router.delete(
    "/{name}",
    operation_id="delete_receiver",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 409, 422, 503),
)
def delete_receiver(name: Name, acts: AdminActs, project_id: AdministeredId, state: State) -> None:
    """Delete a receiver and its pending deliveries."""
    act = AdminAct(Action.RECEIVER_DELETED, name, project_id)
    if not acts.write(lambda conn: receivers.remove(conn, project_id, name), act):
        raise _unknown(state, name)


@router.post(
    "/{name}/test",
    operation_id="test_receiver",
    summary="Test Receiver",
    responses=declared(401, 403, 404, 409, 422, 503),
)
def try_receiver(
    name: Name, acts: AdminActs, project_id: AdministeredId, state: State
) -> TrialAnswer:
    """Send a made-up regression, marked as a test, and return the result."""
    now_us = state.now_us()
    with state.store.reading() as conn:
        receiver = _opened(state, conn, project_id, name, now_us)
        project = project_name(conn, project_id)
    notice = test_message(project_id, project, state.notifications.public_url, now_us)
    sender = state.notifications.sender()
    outcome = sender.send(receiver, f"msg_{secrets.token_hex(16)}", notice, now_us)
    act = AdminAct(Action.RECEIVER_TESTED, name, project_id, {"status": outcome.status})
    state.store.write(lambda conn: acts.record(conn, act))
    return TrialAnswer.of(outcome, outcome=_in_words(outcome))


@router.post(
    "/{name}/rotate",
    operation_id="rotate_receiver",
    responses=declared(401, 403, 404, 409, 422, 503),
)
def rotate_receiver(
    name: Name, acts: AdminActs, project_id: AdministeredId, state: State
) -> RotatedReceiver:
    """Give a receiver a new secret. The former secret signs, too, for a day."""
    now_us, keyring = state.now_us(), state.notifications.directory.keyring

    def rotate(conn: Connection) -> str:
        receiver = _stored(state, conn, project_id, name)
        if FORMATS[receiver.format].secret is not Secret.SIGNING_KEY:
            raise Problem(
                ProblemKind.CONFLICT,
                "Messages of this format are not signed. Delete the receiver and create it again.",
            )
        return receivers.rotate(conn, receiver, keyring=keyring, now_us=now_us)

    try:
        secret = acts.write(rotate, AdminAct(Action.RECEIVER_ROTATED, name, project_id))
    except NoSecretKey as error:
        raise _unsealable(error) from error
    until_us = now_us + receivers.OVERLAP_US
    return RotatedReceiver.of(name=name, secret=secret, both_sign_until=until_us)


def _create(acts: Acts, project_id: int, body: ReceiverRequest) -> MadeReceiver:
    state = acts.state
    secret = FORMATS[body.format].secret
    if needs_routing_key(body.format) != bool(body.routing_key):
        errors = [{"code": "bad_routing_key", "pointer": "/routing_key"}]
        detail = "PagerDuty needs a routing key, and no other format takes one."
        raise Problem(ProblemKind.VALIDATION_FAILED, detail, errors=errors)
    if any(each.name == body.name for each in state.notifications.directory.of_settings):
        raise Problem(ProblemKind.CONFLICT, "A receiver of the settings has this name.")
    _check(state, project_id, body)
    signing = receivers.new_secret() if secret is Secret.SIGNING_KEY else None
    receiver = receivers.NewReceiver(
        name=body.name,
        url=body.url,
        format=body.format,
        secret=signing or body.routing_key,
        cohort={str(name): value for name, value in body.where.items()},
    )
    now_us, keyring = state.now_us(), state.notifications.directory.keyring

    def add(conn: Connection) -> None:
        made_by = acts.key.prefix
        receivers.add(conn, project_id, receiver, keyring=keyring, made_by=made_by, now_us=now_us)
        # Its address is a secret of many services: only the host is told.
        details = {"format": body.format, "host": urlsplit(body.url).hostname, "where": body.where}
        acts.record(conn, AdminAct(Action.RECEIVER_CREATED, body.name, project_id, details))

    try:
        state.store.write(add)
    except BadReceiver as error:
        raise Problem(ProblemKind.CONFLICT, str(error)) from error
    except NoSecretKey as error:
        raise _unsealable(error) from error
    return MadeReceiver(name=body.name, secret=signing)


def _check(state: AppState, project_id: int, body: ReceiverRequest) -> None:
    try:
        state.notifications.sender().check(project_id, body.url)
    except Refused as error:
        errors = [{"code": "bad_address", "pointer": "/url"}]
        raise Problem(ProblemKind.VALIDATION_FAILED, str(error), errors=errors) from None


def _opened(state: AppState, conn: Connection, project_id: int, name: str, now_us: int) -> Receiver:
    owner = owner_of(state, conn, project_id, name)
    try:
        receiver = state.notifications.directory.find(conn, owner, name, now_us)
    except (CannotUnseal, NoSecretKey) as error:
        raise _unsealable(error) from error
    if receiver is None:
        raise Problem(ProblemKind.NOT_FOUND, "No such receiver.")
    return receiver


def owner_of(state: AppState, conn: Connection, project_id: int, name: str) -> int:
    """Return whose receiver *name* is: the project's, or 0 for the settings'.

    Raises:
        Problem: 404.
    """
    if receivers.get(conn, project_id, name) is not None:
        return project_id
    for receiver in state.notifications.directory.of_settings:
        if receiver.name == name:
            return receiver.owner
    raise Problem(ProblemKind.NOT_FOUND, "No such receiver.")


def _stored(state: AppState, conn: Connection, project_id: int, name: str) -> StoredReceiver:
    receiver = receivers.get(conn, project_id, name)
    if receiver is None:
        raise _unknown(state, name)
    return receiver


def _unknown(state: AppState, name: str) -> Problem:
    if any(each.name == name for each in state.notifications.directory.of_settings):
        detail = "The settings define this receiver. Change it there."
        return Problem(ProblemKind.CONFLICT, detail)
    return Problem(ProblemKind.NOT_FOUND, "No such receiver.")


def _unsealable(error: CannotUnseal | NoSecretKey) -> Problem:
    return Problem(ProblemKind.CONFLICT, f"{error} {error.hint}")


def _in_words(outcome: Outcome) -> str:
    seconds = f"{outcome.took_us / SECOND_US:.2f} s"
    if outcome.status is None:
        return f"It was not notified: {outcome.said}"
    if outcome.is_success:
        return f"It answered {outcome.status} within {seconds}."
    return f"It refused: it answered {outcome.status} within {seconds}."
