"""Explain, what-if and the change ledger of a running service, each answer as it is described."""

from typing import Any

from tests.builders.jobs import failing_job
from tests.builders.servers.waiting import wait_for
from tests.contract.described import Service

JOB = "changed 7B (v2) ?#%"
AROUND = "from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z"
SCENARIO = "scenario=halve+infra+failures&scenario=publish+off+the+GPUs"


REQUESTS: list[tuple[str, str, Any, int]] = [
    ("GET", f"/v1/fleet/explain?{AROUND}", None, 200),
    ("GET", f"/v1/fleet/explain?{AROUND}&group_by=&weighting=wall", None, 200),
    ("GET", "/v1/fleet/explain?format=parquet&exclusions=included", None, 200),
    ("GET", "/v1/fleet/explain?group_by=colour", None, 422),
    ("GET", "/v1/fleet/explain?project=nobody", None, 404),
    ("GET", f"/v1/what-if?{AROUND}&{SCENARIO}", None, 200),
    ("GET", f"/v1/what-if?{SCENARIO}", None, 200),
    ("GET", "/v1/what-if", None, 422),
    ("POST", f"/v1/what-if?{AROUND}", {"scenarios": ["halve all failures"]}, 200),
    ("POST", "/v1/what-if", {"scenarios": ["halve luck"]}, 422),
    ("POST", "/v1/what-if", [], 422),
    ("GET", f"/v1/fleet/changes?{AROUND}", None, 200),
    ("GET", "/v1/fleet/changes", None, 200),
    ("GET", f"/v1/fleet/changes?{AROUND}&marker=none", None, 404),
    ("GET", "/v1/fleet/changes?reach_days=91", None, 422),
]


def test_questions_about_changes_are_answered_as_declared(served: Service) -> None:
    deploy = {"at": "2026-03-01T12:30:00Z", "kind": "deploy", "title": "Trainer 4.2"}
    with served.project("changes") as mine:
        mine.ingest(failing_job(JOB))
        wait_for(lambda: mine.knows(JOB))
        assert served.ask("POST", "/v1/markers?project=changes", json=deploy).status_code == 201
        for method, path, body, status in REQUESTS:
            sent = {} if body is None else {"json": body}
            assert mine.ask(method, path, **sent).status_code == status, (method, path)
