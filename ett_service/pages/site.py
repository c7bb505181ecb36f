"""All pages. Where none is, a browser gets a page that leads back, and a client its problem."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from ett_service.api.problems import Problem, ProblemKind
from ett_service.pages import files, sign_in
from ett_service.pages.fleet import changes, checkpoints, overview, quality, what_if
from ett_service.pages.jobs import attempt, compiling, events, job, listing
from ett_service.pages.record import settings
from ett_service.pages.regressions import comparison, finding
from ett_service.pages.regressions import listing as findings
from ett_service.pages.route import PageRoute


class Elsewhere(PageRoute):
    """Matches what a browser asks for, outside of the API."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Leave clients of the API to its own answers."""
        accepts = dict(scope.get("headers", ())).get(b"accept", b"")
        if b"text/html" not in accepts or scope["path"].startswith("/v1/"):
            return Match.NONE, {}
        return super().matches(scope)


_ELSEWHERE = APIRouter(include_in_schema=False, route_class=Elsewhere)


@_ELSEWHERE.get("/{path:path}")
def find_nothing(_: Request, path: str) -> Response:
    """Say that there is nothing here."""
    raise Problem(ProblemKind.NOT_FOUND, f"There is no page at /{path}.")


ROUTERS = (
    sign_in.ROUTER,
    files.ROUTER,
    overview.ROUTER,
    listing.ROUTER,
    job.ROUTER,
    attempt.ROUTER,
    compiling.ROUTER,
    events.ROUTER,
    findings.ROUTER,
    finding.ROUTER,
    comparison.ROUTER,
    changes.ROUTER,
    checkpoints.ROUTER,
    what_if.ROUTER,
    quality.ROUTER,
    settings.ROUTER,
    _ELSEWHERE,  # last: it matches what nothing else does
)
