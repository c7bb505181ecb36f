"""The description of the API is committed, complete, and has an example everywhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from ett_service.api.openapi import description
from ett_service.api.problems import MEDIA_TYPE
from tests.builders.servers.application import Service

OTLP_MEDIA = {"application/x-protobuf", "application/json"}  #: its errors are its own

OPERATIONS = {
    "POST /v1/events": "accept_events",
    "POST /v1/traces": "accept_traces",
    "POST /v1/jobs/{job}/trainer-status": "accept_trainer_status",
    "GET /v1/jobs": "list_jobs",
    "GET /v1/jobs/{job}": "read_job",
    "GET /v1/jobs/{job}/ledger": "read_ledger",
    "GET /v1/jobs/{job}/events": "list_job_events",
    "GET /v1/jobs/{job}/stages": "read_stages",
    "GET /v1/jobs/{job}/ranks": "read_ranks",
    "GET /v1/jobs/{job}/trace": "read_trace",
    "GET /v1/jobs/{job}/attempts/{number}": "read_attempt_timeline",
    "GET /v1/jobs/{job}/checkpoints": "list_checkpoints",
    "GET /v1/attempts/{attempt_id}": "read_attempt",
    "GET /v1/jobs/{job}/productivity": "read_productivity",
    "GET /v1/jobs/{job}/checkpoint-advice": "advise_job",
    "GET /v1/fleet/checkpoint-advice": "advise_fleet",
    "GET /v1/jobs/{job}/compile-advice": "advise_job_on_compiles",
    "GET /v1/fleet/compile-advice": "advise_fleet_on_compiles",
    "GET /v1/fleet/projection": "project_fleet",
    "GET /v1/estimate": "estimate_run",
    "GET /v1/jobs/{job}/corrections": "list_corrections",
    "GET /v1/jobs/{job}/attempts": "list_attempts",
    "GET /v1/fleet/summary": "read_fleet_summary",
    "GET /v1/fleet/series": "read_fleet_series",
    "GET /v1/fleet/trend": "read_fleet_trend",
    "GET /v1/fleet/jobs/top": "list_top_jobs",
    "GET /v1/fleet/explain": "explain_fleet",
    "GET /v1/fleet/changes": "list_changes",
    "GET /v1/what-if": "read_what_if",
    "POST /v1/what-if": "ask_what_if",
    "PUT /v1/jobs/{job}/attempts/{number}/verdict": "put_verdict",
    "DELETE /v1/jobs/{job}/attempts/{number}/verdict": "take_back_verdict",
    "PUT /v1/jobs/{job}/exclusion": "put_exclusion",
    "DELETE /v1/jobs/{job}/exclusion": "take_back_exclusion",
    "DELETE /v1/jobs/{job}": "delete_job",
    "GET /v1/markers": "list_markers",
    "POST /v1/markers": "create_marker",
    "DELETE /v1/markers/{marker_id}": "delete_marker",
    "GET /v1/receivers": "list_receivers",
    "POST /v1/receivers": "create_receiver",
    "DELETE /v1/receivers/{name}": "delete_receiver",
    "POST /v1/receivers/{name}/test": "test_receiver",
    "POST /v1/receivers/{name}/rotate": "rotate_receiver",
    "GET /v1/receivers/{name}/deliveries": "list_deliveries",
    "POST /v1/receivers/{name}/replay": "replay_deliveries",
    "GET /v1/regressions": "list_regressions",
    "GET /v1/regressions/{regression_id}": "read_regression",
    "GET /v1/regressions/{regression_id}/values": "list_regression_values",
    "POST /v1/regressions/{regression_id}/triage": "triage_regression",
    "POST /v1/regressions/{regression_id}/acknowledge": "acknowledge_regression",
    "POST /v1/regressions/{regression_id}/accept": "accept_regression",
    "POST /v1/regressions/{regression_id}/mute": "mute_regression",
    "GET /v1/regressions/mutes": "list_mutes",
    "POST /v1/regressions/mutes": "create_mute",
    "DELETE /v1/regressions/mutes/{mute_id}": "take_back_mute",
    "GET /v1/regressions/compare": "compare_jobs",
    "GET /v1/regressions/power": "read_detection_power",
    "GET /v1/regressions/causes": "read_regression_causes",
    "GET /v1/regressions/tuning": "list_tuning",
    "POST /v1/regressions/tuning/reset": "reset_tuning",
    "GET /v1/regressions/{regression_id}/experiment": "read_regression_experiment",
    "POST /v1/regressions/{regression_id}/confirm": "confirm_regression",
    "GET /v1/keys": "list_keys",
    "POST /v1/keys": "create_key",
    "POST /v1/keys/{prefix}/rotate": "rotate_key",
    "GET /v1/key-usage": "list_key_usage",
    "GET /v1/audit": "list_audit_entries",
    "DELETE /v1/keys/{prefix}": "revoke_key",
    "GET /metrics": "read_metrics",
    "GET /healthz": "read_health",
    "GET /readyz": "read_readiness",
}

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(description())
    return parsed


def _operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }


def test_the_committed_description_is_the_one_the_code_gives() -> None:
    assert COMMITTED.read_text("utf-8") == description(), "run: make openapi"


def test_operation_ids_are_the_ones_that_clients_were_generated_from(
    document: dict[str, Any],
) -> None:
    assert {
        name: operation["operationId"] for name, operation in _operations(document).items()
    } == OPERATIONS


def test_every_answer_has_an_example(document: dict[str, Any]) -> None:
    without = []
    for name, operation in _operations(document).items():
        for status, answer in operation["responses"].items():
            for media in answer.get("content", {}).values():
                reference = media["schema"].get("$ref", "").rpartition("/")[2]
                schema = document["components"]["schemas"].get(reference, {})
                if "example" not in media and "example" not in schema:
                    without.append((name, status))
    assert without == []


def test_every_refusal_is_declared_as_a_problem(document: dict[str, Any]) -> None:
    for name, operation in _operations(document).items():
        assert operation["security"] or name in ("GET /healthz", "GET /readyz")
        refusals = {
            status: answer for status, answer in operation["responses"].items() if status >= "4"
        }
        if name.partition(" ")[2].startswith("/v1"):
            assert {"401", "403", "422", "503"} <= refusals.keys()
        early = [refusals.pop(status) for status in ("414", "431")]  # before the route is known
        assert all(list(refusal["content"]) == [MEDIA_TYPE] for refusal in early)
        if name == "POST /v1/traces":
            assert all(set(each["content"]) == OTLP_MEDIA for each in refusals.values())
        elif name != "GET /readyz":
            assert all(list(refusal["content"]) == [MEDIA_TYPE] for refusal in refusals.values())


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    references: list[str] = []

    def walk(node: object) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                references.append(node["$ref"])
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    walk(document)
    declared = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references) - declared == set()
    assert "#/components/schemas/Event" in references


def objects(node: Any, schemas: dict[str, Any], seen: dict[str, Any]) -> None:
    """Put every schema to which *node* refers into *seen*, by name."""
    children = node if isinstance(node, list) else list(node.values())
    if not isinstance(node, list) and isinstance(node.get("$ref"), str):
        name = node["$ref"].rpartition("/")[2]
        if name not in seen:
            seen[name] = schemas[name]
            children.append(schemas[name])
    for child in children:
        if isinstance(child, dict | list):
            objects(child, schemas, seen)


def test_no_body_takes_members_that_are_not_declared(document: dict[str, Any]) -> None:
    bodies = [operation.get("requestBody", {}) for operation in _operations(document).values()]
    sent: dict[str, Any] = {}
    objects(bodies, document["components"]["schemas"], sent)
    assert {"EventBatch", "NewMarker"} <= sent.keys()
    takes_any = {
        name
        for name, schema in sent.items()
        if "properties" in schema and schema.get("additionalProperties") is not False
    }
    # The status is another project's, which may add to it.
    assert takes_any == {"TrainerStatusUpdate", "TrainerStatus", "TrainerMetric"}


def test_no_two_answers_share_a_name(document: dict[str, Any]) -> None:
    # Of two of one name the schemas would be called by their modules, as `ett_service__api__...`.
    assert [name for name in document["components"]["schemas"] if "__" in name] == []


def test_a_method_that_is_not_allowed_is_told_which_are(
    document: dict[str, Any], service: Service
) -> None:
    for path, operations in document["paths"].items():
        answer = service.client.request("BREW", path.replace("{", "").replace("}", ""))
        assert answer.status_code == 405, path
        assert answer.headers["Allow"] == ", ".join(sorted(map(str.upper, operations))), path
