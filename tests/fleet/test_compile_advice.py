"""Which jobs a question about compiles reads."""

from typing import Any

from ett_service.fleet.compile_advice import MOST_JOBS, fleet_compile_advice
from ett_service.fleet.scope import Scope, Window
from tests.builders.clock import NOON
from tests.builders.compiles import stage
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import wire_event, wire_span
from tests.builders.servers.application import Service

HOUR = 3_600_000_000


def _compiled(job: str, minutes: float, team: str = "red") -> list[dict[str, Any]]:
    named = {"job": job}
    return [
        wire_event("job", 0, **named, team=team),
        wire_event("attempt_started", 0, **named),
        wire_span("pt2_compile", 0, minutes, **named),
        stage("dynamo", 0, minutes, **named),
        wire_event("attempt_ended", 30, **named, outcome="completed"),
    ]


@ON_ONE_ENGINE
def test_the_jobs_that_compiled_longest_are_read_whatever_their_accelerators(
    service: Service,
) -> None:
    number = MOST_JOBS + 3
    for first in range(0, number, 10):
        jobs = range(first, min(first + 10, number))
        service.ingest([event for job in jobs for event in _compiled(f"{job}", 1 + job / 10)])
    with service.store.reading() as conn:
        advice = fleet_compile_advice(conn, Scope(), Window(NOON, NOON + HOUR))

    assert (advice.jobs, advice.jobs_read, advice.total.compiles) == (number, MOST_JOBS, MOST_JOBS)
    shortest_read = 1 + 3 / 10
    assert advice.total.us == sum(
        round((shortest_read + place / 10) * 60) * 1_000_000 for place in range(MOST_JOBS)
    )


def test_a_job_of_several_cohorts_is_of_that_in_which_it_compiled_most(service: Service) -> None:
    second: dict[str, Any] = {"job": "a", "attempt": 1}
    service.ingest(
        [
            *_compiled("a", 5),
            wire_event("attempt_started", 1, job="a", code_version="1"),
            wire_event("attempt_started", 31, **second, code_version="2"),
            wire_span("pt2_compile", 31, 41, **second),
            wire_event("attempt_ended", 50, **second, outcome="completed"),
        ]
    )
    with service.store.reading() as conn:
        scope = Scope(group_by=("code_version",))
        advice = fleet_compile_advice(conn, scope, Window(NOON, NOON + HOUR))

    assert [(group.labels, group.jobs_read) for group in advice.groups] == [
        ({"code_version": "2"}, 1)
    ]
