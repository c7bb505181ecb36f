import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest

from ett_service.logs import configure, redact

KEY = "ett_4mZ0q8fKs2vXw7Lr1TnBc6HdJp3YgAe5Uo9i"
log = logging.getLogger("tests.of.logs")


@pytest.fixture(autouse=True)
def _root_logger_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def _written(form: Literal["text", "json"] = "json") -> io.StringIO:
    stream = io.StringIO()
    configure("info", form, stream)
    return stream


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"key {KEY} is revoked", "key ett_4mZ0q8fK*** is revoked"),
        (f"Authorization: Bearer {KEY}", "Authorization: ***"),
        ("authorization=Basic dXNlcjpwYXNz", "authorization=***"),
        ("'authorization': 'Bearer abc'", "'authorization': '***'"),
        ("sent bearer abcdefghij", "sent bearer ***"),
        ("postgresql+psycopg://ett:hunter2@db/ett", "postgresql+psycopg://ett:***@db/ett"),
        ("postgresql://ett:hun@ter2@db/ett", "postgresql://ett:***@db/ett"),
        ("host=db password=hunter2 user=ett", "host=db password=*** user=ett"),
        ('{"api_key": "hunter2"}', '{"api_key": "***"}'),
        ("signed with whsec_C2FVsBQIhrscChlQIMV+b5s/=", "signed with whsec_***"),
    ],
)
def test_a_secret_is_blotted_out_and_the_rest_stays(text: str, left: str) -> None:
    assert redact(text) == left


@pytest.mark.parametrize(
    "text",
    ["ett_phase_seconds_total", "tokens=123", "http://127.0.0.1:8080/v1/jobs", "the bearer of it"],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_gets_out_by_any_way(form: Literal["text", "json"]) -> None:
    stream = _written(form)
    extra = {
        "url": f"http://u:{KEY}@h/",
        "token": "hunter2",
        "headers": {"Authorization": "hunter2", "more": [f"Bearer {KEY}"]},
    }
    try:
        int(f"password=hunter2 {KEY}")
    except ValueError:
        log.exception("with %s", KEY, extra=extra)
    assert KEY not in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    assert "ValueError" in stream.getvalue()


def test_a_json_line_carries_extras_as_members() -> None:
    stream = _written()
    log.info("GET %s", "/v1/jobs", extra={"event": "request", "request_id": "r1", "status": 200})
    line = json.loads(stream.getvalue())
    assert line.pop("at").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "tests.of.logs",
        "message": "GET /v1/jobs",
        "event": "request",
        "request_id": "r1",
        "status": 200,
    }


def test_a_text_line_stays_one_line_whatever_it_is_given() -> None:
    stream = _written("text")
    log.info("one\ntwo", extra={"path": "a b\nc"})
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(r'INFO tests.of.logs: one\ntwo path="a b\nc"')


def test_arguments_that_do_not_fit_their_format_do_not_break_the_caller() -> None:
    stream = _written()
    log.info("%d jobs", "many")
    assert "many" in json.loads(stream.getvalue())["message"]


def test_what_lies_below_the_level_is_left_out() -> None:
    stream = _written()
    log.debug("quiet")
    assert stream.getvalue() == ""


def test_libraries_tell_of_trouble_only() -> None:
    stream = _written()
    logging.getLogger("alembic.runtime.migration").info("Context impl SQLiteImpl.")
    logging.getLogger("uvicorn.error").warning("trouble")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["message"] == "trouble"
