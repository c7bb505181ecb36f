"""Addresses at which nothing is: a browser gets a page that leads back, a client its problem."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from ett_service.api.problems import Problem, ProblemKind
from ett_service.pages.route import PageRoute


class Elsewhere(PageRoute):
    """Matches what a browser asks for, outside of the API."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Leave clients of the API to its own answers."""
        accepts = dict(scope.get("headers", ())).get(b"accept", b"")
        if b"text/html" not in accepts or scope["path"].startswith("/v1/"):
            return Match.NONE, {}
        return super().matches(scope)


ROUTER = APIRouter(include_in_schema=False, route_class=Elsewhere)


@ROUTER.get("/{path:path}")
def find_nothing(_: Request, path: str) -> Response:
    """Say that there is nothing here."""
    raise Problem(ProblemKind.NOT_FOUND, f"There is no page at /{path}.")
