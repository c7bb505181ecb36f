"""Whatever a trainer does, every line that the client writes is one that the service takes."""

import base64
import itertools
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ett_service.ingest.decode import Batch, decode
from ett_service.ingest.wire import Limits
from tests.builders.trainers import environment, spooled_bytes
from tests.contract import drawn_calls
from tests.contract.drawn_calls import Call

NDJSON = {"Content-Type": "application/x-ndjson"}

Made = Callable[[Sequence[Call], Mapping[str, str]], Batch]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Return a function that makes calls in a new process, and decodes what its spool holds."""
    root = tmp_path_factory.mktemp("spools")
    numbers = itertools.count()
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.contract.caller"],
        cwd=Path(__file__).parents[2],
        env=environment(root),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def make(calls: Sequence[Call], variables: Mapping[str, str]) -> Batch:
        folder = root / str(next(numbers))
        order = pickle.dumps((str(folder), dict(variables), list(calls)))
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(base64.b64encode(order).decode() + "\n")
        program.stdin.flush()
        assert program.stdout.readline() == "0\n", "a call raised"
        return spooled(folder)

    yield make
    program.communicate(timeout=120)


def spooled(folder: Path) -> Batch:
    """Decode every line of the spools in *folder* as ingest would."""
    body = b"".join(event + b"\n" for event in spooled_bytes(folder))
    now_us = time.time_ns() // 1000
    return decode(body, NDJSON, now_us=now_us, limits=Limits(max_batch_events=10**6))


def everything() -> list[Call]:
    """Make every public call once, as a trainer would."""
    return [
        ("init", ("llm-70b",), {"gpus": 8, "team": "t", "labels": {"a": "b"}, "parameters": 7}),
        ("phase", ("launcher_init",), {}),
        ("stage", ("preproc_creation",), {}),
        ("leave", (), {}),
        ("restored", (40,), {"size": 1 << 30}),
        ("leave", (), {}),
        ("data", ([1, 2],), {}),
        ("train_loop", (), {}),
        ("step", (41,), {"samples": 1, "tokens": 2, "flops": 3.5}),
        ("checkpoint", (41,), {"size": 10}),
        ("leave", (), {}),
        ("durable_when", (42,), {}),
        ("phase", ("evaluation",), {}),
        ("leave", (), {}),
        ("leave", (), {}),
        ("flush", (0.0,), {}),
        ("end", ("failed",), {"signal": 9, "message": "killed", "exit_code": 137, "final": True}),
    ]


def test_every_public_call_writes_what_ingest_takes(made: Made) -> None:
    batch = made(everything(), {})

    assert batch.refusals == ()
    assert {arrival.event.type for arrival in batch.arrivals} == {
        "job", "attempt_started", "attempt_ended", "phase_started", "phase_ended", "progress",
        "checkpoint_saved", "checkpoint_restored", "job_ended", "span",
    }  # fmt: skip


@given(job=st.just("llm-70b") | drawn_calls.texts, members=drawn_calls.facts,
       calls=drawn_calls.calls, variables=drawn_calls.variables)  # fmt: skip
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
def test_no_call_raises_or_writes_what_is_refused(
    made: Made,
    job: str,
    members: dict[str, object],
    calls: list[Call],
    variables: dict[str, str],
) -> None:
    batch = made([("init", (job,), members), *calls], variables)

    assert batch.refusals == ()
