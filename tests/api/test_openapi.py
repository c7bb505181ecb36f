"""The description of the API is committed, complete, and has an example everywhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from ett_service.api.openapi import description
from ett_service.api.problems import MEDIA_TYPE
from tests.builders.servers.application import Service

OTLP_MEDIA = {"application/x-protobuf", "application/json"}  #: its errors are its own

pytestmark = pytest.mark.xdist_group("description")  # which takes seconds to make

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.fixture(scope="module")
def text() -> str:
    return description()


@pytest.fixture(scope="module")
def document(text: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def _operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }


def test_the_committed_description_is_the_one_the_code_gives(text: str) -> None:
    assert COMMITTED.read_text("utf-8") == text, "run: make openapi"


def test_every_operation_has_an_id_of_its_own_and_no_generated_one(
    document: dict[str, Any],
) -> None:
    ids = {name: operation["operationId"] for name, operation in _operations(document).items()}
    assert len(set(ids.values())) == len(ids)
    assert {name: text for name, text in ids.items() if "v1" in text.split("_")} == {}


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
        allowed = ", ".join(sorted(map(str.upper, operations)))
        assert answer.headers["Allow"] == allowed, path
        assert answer.json()["detail"] == f"This route takes {allowed}."
