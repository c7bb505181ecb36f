"""The key of a first trainer, which the page shows that says how to record a job."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ett_service.pages.ask import Ask, Question
from ett_service.pages.render import HEADERS
from ett_service.pages.route import Asking, OwnForm, SignedIn, router
from ett_service.pages.sessions import state_of

ROUTER = router()


@ROUTER.post("/first-key")
async def take_first_key(request: Request, session: SignedIn, ask: Asking, _: OwnForm) -> Response:
    """Make a key, and show the lines with it."""
    await make_first_key(request, ask, session.key.project)
    return RedirectResponse("/", 303, HEADERS)


async def make_first_key(request: Request, ask: Ask, project: str) -> None:
    """Make a key that writes and reads, and keep it in memory for the first page.

    Raises:
        Refusal: The one who asks may not.
    """
    body = {"project": project, "name": "first trainer", "scopes": ["write", "read"]}
    made = await ask.write("POST", Question("/v1/keys"), body)
    state_of(request).first_keys[project] = made["key"]
