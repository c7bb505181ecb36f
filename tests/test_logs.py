import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from ett_service.logs import configure, redact
from ett_service.storage.engine.errors import StorageUnavailable
from tests.builders.servers.processes import bare_environment, run

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


@pytest.mark.parametrize("text", ["API_KEY=hunter2", "apikey: hunter2", "PassWd=hunter2"])
def test_a_secret_is_found_by_a_name_in_any_case(text: str) -> None:
    assert "hunter2" not in redact(text)


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


def test_libraries_log_trouble_only() -> None:
    stream = _written()
    logging.getLogger("alembic.runtime.migration").info("Context impl SQLiteImpl.")
    logging.getLogger("uvicorn.error").warning("trouble")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["message"] == "trouble"


def test_a_database_that_is_unavailable_is_one_line_a_minute_without_a_traceback() -> None:
    stream = _written()
    for _ in range(104):
        error = StorageUnavailable("The database is unavailable: no route.")
        log.error("A step failed.", exc_info=error, extra={"event": "worker_trouble"})
        log.warning("The database is unavailable.", extra={"event": "storage_unavailable"})
    log.error("Something else.")

    outage, other = map(json.loads, stream.getvalue().splitlines())
    assert outage["message"] == "A step failed. The database is unavailable: no route."
    assert (outage["level"], "trace" in outage) == ("warning", False)
    assert other["message"] == "Something else."


def test_the_next_minute_of_an_outage_says_how_much_was_left_out() -> None:
    stream = _written()
    (handler,) = logging.getLogger().handlers
    for second in (0, 1, 59, 61):
        record = log.makeRecord(log.name, logging.ERROR, "", 0, "It failed.", (), None)
        record.event, record.created = "storage_unavailable", 1_000.0 + second
        handler.handle(record)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["left_out"] for line in lines] == [0, 2]


@pytest.mark.parametrize("verb", ["serve", "worker"])
def test_every_line_of_a_process_that_cannot_start_is_json(verb: str, tmp_path: Path) -> None:
    missing = f"sqlite:///{tmp_path / 'no' / 'ett.db'}"
    environment = {"ETT_DATABASE_URL": missing, "ETT_LOG_FORMAT": "json", "ETT_PORT": "0"}
    done = run(verb, folder=tmp_path, environment={**bare_environment(), **environment})

    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert lines[-1]["event"] == "failed"


def test_what_nobody_catches_is_a_line_of_the_log() -> None:
    code = """if True:
        import gc, logging, threading, warnings
        from ett_service.logs import catch_all, configure
        configure("info", "json")
        catch_all()
        class Bad:
            def __del__(self):
                raise ValueError("ignored")
        Bad()
        gc.collect()
        warnings.warn("a warning")
        logging.getLogger("uvicorn.error").error("of uvicorn")
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        raise RuntimeError("the end")
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line.get("event") for line in lines] == ["ignored", None, None, "crashed", "crashed"]
    assert "ZeroDivisionError" in lines[3]["trace"]
    assert "the end" in lines[4]["trace"]
