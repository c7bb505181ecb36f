"""The first key of a trainer, made on the page that says how to record one."""

from starlette.requests import Request
from starlette.responses import Response

from ett_service.pages.ask import Question
from ett_service.pages.render import page
from ett_service.pages.route import Asking, OwnForm, SignedIn, router

ROUTER = router()


@ROUTER.post("/first-key")
async def make_key(request: Request, session: SignedIn, ask: Asking, _: OwnForm) -> Response:
    """Make a key that writes and reads, and show it this once."""
    body = {"project": session.key.project, "name": "first trainer", "scopes": ["write", "read"]}
    made = await ask.write("POST", Question("/v1/keys"), body)
    return page(request, "first_key.html", session, key=made["key"])
