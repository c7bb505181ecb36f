"""Every route by which people administer leaves an entry in the audit log."""

from collections.abc import Iterator

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from ett_service.api import deps
from ett_service.api.app import ROUTERS
from ett_service.api.record import acts

#: Their rows say who made them, and when.
RECORDED_ELSEWHERE = {"create_marker"}


def calls(dependant: Dependant) -> Iterator[object]:
    yield dependant.call
    for each in dependant.dependencies:
        yield from calls(each)


def scopes(route: APIRoute) -> set[str]:
    return {
        scope
        for call in calls(route.dependant)
        if isinstance(call, deps._Writing)  # noqa: SLF001 - what routes ask for
        for scope in call._scopes  # noqa: SLF001 - likewise
    }


ADMINISTERING = [
    route
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and "admin" in scopes(route) and route.methods != {"GET"}
]


@pytest.mark.parametrize("route", ADMINISTERING, ids=lambda route: route.operation_id)
def test_a_route_that_administers_is_handed_what_records_it(route: APIRoute) -> None:
    recording = {acts._admin_acts, acts._correcting_acts}  # noqa: SLF001 - what hands it out
    has_record = not recording.isdisjoint(calls(route.dependant))
    assert has_record is (route.operation_id not in RECORDED_ELSEWHERE)


def test_there_are_such_routes() -> None:
    assert len(ADMINISTERING) > 15
