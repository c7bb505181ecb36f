"""The examples of the API's description are what the API answers today."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from ett_service.api.docs import examples
from ett_service.api.openapi import description
from tests.api.examples import record

pytestmark = pytest.mark.xdist_group("description")  # which takes seconds to make

JSON = "application/json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(description())
    return parsed


def _rounded(value: Any) -> Any:
    """Leave out the last digits of numbers, which depend on the machine."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, str) and "\r\n" in value:
        return [[_rounded_cell(cell) for cell in line.split(",")] for line in value.splitlines()]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _rounded_cell(cell: str) -> float | str:
    try:
        return float(f"{float(cell):.6g}")
    except ValueError:
        return cell


def _schemas(document: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield every JSON example with the schema of its body."""
    for operations in document["paths"].values():
        for operation in operations.values():
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for body in bodies:
                content = body.get("content", {}).get(JSON, {})
                if "example" in content:
                    yield operation["operationId"], content["example"], content["schema"]


def test_the_examples_are_what_is_answered_today() -> None:
    fresh = {name: examples for noun in record().values() for name, examples in noun.items()}
    assert sorted(examples()) == sorted(fresh), "run: make openapi"
    for operation, example in examples().items():
        assert _rounded(fresh[operation]) == _rounded(example), f"{operation}: run make openapi"


def test_every_example_is_of_its_schema(document: dict[str, Any]) -> None:
    checked = set()
    for operation, example, schema in _schemas(document):
        root = {**schema, "components": document["components"]}
        faults = [fault.message for fault in Draft202012Validator(root).iter_errors(example)]
        assert faults == [], operation
        checked.add(operation)
    assert len(checked) > 40


def test_an_example_that_is_not_of_its_schema_would_be_seen(document: dict[str, Any]) -> None:
    (schema,) = {
        json.dumps(schema)
        for operation, _, schema in _schemas(document)
        if operation == "list_jobs"
    }
    root = {**json.loads(schema), "components": document["components"]}
    example = examples()["list_jobs"]["answers"]["200"][JSON]
    row = {**example["jobs"][0], "gpus": "many"}
    assert not Draft202012Validator(root).is_valid({**example, "jobs": [row]})
