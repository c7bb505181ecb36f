"""Settings, for administrators: keys, receivers, the audit log, mutes, prices and targets."""

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ett_service.api.problems import Problem, ProblemKind
from ett_service.charts.units import cohort, count, percent, size
from ett_service.fleet.economy import Economy
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import quoted
from ett_service.pages.panel import Panel, table
from ett_service.pages.render import HEADERS, page
from ett_service.pages.route import Asking, OwnForm, SignedIn, router
from ett_service.pages.sessions import Session, state_of
from ett_service.pages.window import moment

ROUTER = router()

_LATEST_ACTS = 50


@ROUTER.get("/settings")
async def show_settings(
    request: Request,
    session: SignedIn,
    ask: Asking,
    tested: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """Show what an administrator may see."""
    _only_for_administrators(session)
    questions = (
        Question("/v1/keys"),
        Question("/v1/receivers"),
        Question("/v1/regressions/mutes"),
        Question("/v1/key-usage"),
        Question("/v1/audit", {"limit": _LATEST_ACTS}),
    )
    keys, receivers, mutes, usage, acts = await ask.all(*questions)
    economy = state_of(request).economy
    return page(
        request,
        "settings.html",
        session,
        tested=tested,
        keys=keys["keys"],
        receivers=receivers["receivers"],
        questions=questions,
        panels=[
            _usage(usage["keys"], questions[3]),
            _mutes(mutes["mutes"], questions[2]),
            _prices(economy),
            _targets(economy),
            _acts(acts["entries"], questions[4]),
        ],
    )


def _only_for_administrators(session: Session) -> None:
    if not session.may("admin"):
        raise Problem(ProblemKind.NOT_FOUND)


def _usage(keys: list[Answer], question: Question) -> Panel:
    return Panel(
        "usage",
        "Who sends most, in the last day",
        before=() if keys else ("No key sent anything.",),
        table=table(
            "key|project|name|#requests|#refused|#events|#sent",
            (
                (
                    key["prefix"],
                    key["project"],
                    key["name"],
                    *(count(key[name]) for name in ("requests", "refused", "events")),
                    size(key["bytes"]),
                )
                for key in keys
            ),
        ),
        question=question,
    )


def _acts(entries: list[Answer], question: Question) -> Panel:
    return Panel(
        "audit",
        "What administrators did",
        before=() if entries else ("Nobody has administered anything yet.",),
        table=table(
            "at (UTC)|who|from|action|on|project",
            (
                (
                    moment(entry["at"]),
                    entry["made_by_name"],
                    entry["made_from"],
                    entry["action"].replace("_", " "),
                    entry["target"],
                    entry["project"] or "",
                )
                for entry in entries
            ),
        ),
        question=question,
        is_wide=True,
    )


def _mutes(mutes: list[Answer], question: Question) -> Panel:
    return Panel(
        "mutes",
        "Mutes",
        before=()
        if mutes
        else ("Nothing is muted. `ett regressions mute`, or the page of a finding, mutes.",),
        table=table(
            "cohort|phase|until (UTC)|by|why",
            (
                (
                    cohort(mute["cohort"]),
                    mute["phase"] or "(all)",
                    moment(mute["until"]),
                    mute["made_by_name"] or mute["made_by"],
                    mute["why"],
                )
                for mute in mutes
            ),
        ),
        question=question,
    )


def _prices(economy: Economy) -> Panel:
    return Panel(
        "prices",
        "Prices",
        before=()
        if economy.prices
        else ("No price is set, so nothing has a cost: add `[[prices]]` to the settings file.",),
        table=table(
            "hardware|#price",
            (
                (price.hardware, f"{economy.currency} {float(price.per_gpu_hour):.2f} an hour")
                for price in economy.prices
            ),
        ),
        after=("They are set in the settings file.",),
    )


def _targets(economy: Economy) -> Panel:
    return Panel(
        "targets",
        "Targets",
        before=()
        if economy.targets
        else ("No target is set: add `[[targets]]` to the settings file.",),
        table=table(
            "cohort|#ETT%",
            ((cohort(target.where), percent(target.ett_ratio)) for target in economy.targets),
        ),
        after=("They are set in the settings file.",),
    )


@ROUTER.post("/settings/receivers/{name}/test")
async def try_receiver(name: str, session: SignedIn, ask: Asking, _: OwnForm) -> Response:
    """Send a test message, and say what became of it."""
    _only_for_administrators(session)
    answer = await ask.write("POST", Question(f"/v1/receivers/{quoted(name)}/test"))
    result = f"{name}: {answer['outcome']}"
    query = Question("/settings", {"tested": result}).address
    return RedirectResponse(f"{query}#receivers", 303, HEADERS)


@ROUTER.post("/settings/keys")
async def create_key(request: Request, session: SignedIn, ask: Asking, form: OwnForm) -> Response:
    """Make a key, and show it this once."""
    _only_for_administrators(session)
    scopes = form.get("scopes", "").split(" ")
    body = {"project": form.get("project", ""), "name": form.get("name", ""), "scopes": scopes}
    made = await ask.write("POST", Question("/v1/keys"), body)
    return page(request, "made_key.html", session, made=made)


@ROUTER.post("/settings/keys/{prefix}/rotate")
async def rotate_key(
    prefix: str, request: Request, session: SignedIn, ask: Asking, _: OwnForm
) -> Response:
    """Make a successor of a key, which works for a day longer, and show it this once."""
    _only_for_administrators(session)
    made = await ask.write("POST", Question(f"/v1/keys/{quoted(prefix)}/rotate"), {})
    return page(request, "made_key.html", session, made=made)


@ROUTER.post("/settings/keys/{prefix}/revoke")
async def revoke_key(
    prefix: str, request: Request, session: SignedIn, ask: Asking, _: OwnForm
) -> Response:
    """Revoke a key at once, and with it every session of it."""
    _only_for_administrators(session)
    await ask.write("DELETE", Question(f"/v1/keys/{quoted(prefix)}"))
    shown = state_of(request).first_keys
    for project in [name for name, key in shown.items() if key.startswith(prefix)]:
        del shown[project]
    return RedirectResponse("/settings", 303, HEADERS)
