"""What only computes of a request takes no thread: handing over to one takes longer than it."""

import inspect
from collections.abc import Iterator

import pytest
from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from ett_service.api.deps import _reader
from ett_service.api.fleet import advice, changes, explain, summary, what_if
from ett_service.api.jobs import listing as jobs
from ett_service.api.record import markers
from ett_service.api.regressions import causes, comparison, confirmation, listing

ROUTERS = (
    advice.router, changes.router, explain.router, summary.router, what_if.router, jobs.router,
    markers.router, causes.router, comparison.router, listing.router, confirmation.router,
)  # fmt: skip


def _inner(dependant: Dependant) -> Iterator[Dependant]:
    for each in dependant.dependencies:
        yield each
        yield from _inner(each)


@pytest.mark.parametrize("router", ROUTERS, ids=lambda router: str(router.routes[0].path))
def test_what_pages_ask_takes_a_thread_for_the_connection_alone(router: APIRouter) -> None:
    routes = [
        each for each in router.routes if isinstance(each, APIRoute) and each.methods == {"GET"}
    ]
    assert routes
    for route in routes:
        threaded = {
            each.call
            for each in _inner(route.dependant)
            if not inspect.iscoroutinefunction(each.call)
        }
        assert threaded <= {_reader}, route.path
