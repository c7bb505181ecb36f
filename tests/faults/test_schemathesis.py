"""Requests that schemathesis draws from the description of the API: no failure, nothing unsaid."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ett_service.storage.record.keys import PREFIX_LENGTH
from tests.builders.servers.ett import serving_new
from tests.builders.tally import Tally

PROGRAM = Path(sys.prefix) / "schemathesis" / "bin" / "schemathesis"

#: What is wrong may also be said to be too long or too large, before it is read.
CONFIGURATION = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 414, 415, 422, 428, 429, 431, "5xx"]
"""

SECONDS_A_REQUEST = 60
"""Other tests keep the cores busy: what takes longer hangs."""


@pytest.mark.long
@pytest.mark.skipif(not PROGRAM.exists(), reason="schemathesis is missing: make faults")
def test_no_drawn_request_is_answered_as_nobody_described(tmp_path: Path, tally: Tally) -> None:
    options = {
        "--exclude-checks": "positive_data_acceptance",  # ours knows what no schema can say
        "--exclude-path": "/v1/traces",  # protobuf is drawn in tests/api/test_fuzz.py
        "--generation-allow-x00": "true",
        # Of each operation, and not for so many seconds: what is drawn depends on the seed alone.
        "--max-examples": str(tally.rounds),
        "--request-timeout": str(SECONDS_A_REQUEST),
        "--seed": str(tally.seed),
    }
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION, "utf-8")
    with serving_new(tmp_path, ETT_DETECTION='{"enabled": false}') as server:
        assert server.get("/openapi.json")  # it is made at the first request, which takes seconds
        done = subprocess.run(
            [
                PROGRAM, "run", f"{server.url}/openapi.json",
                "--header", f"Authorization: Bearer {server.key}",
                *(word for option in options.items() for word in option),
            ],
            cwd=tmp_path,
            env={
                **os.environ,
                "SCHEMATHESIS_HOOKS": "drawn_requests",
                "PYTHONPATH": str(Path(__file__).parent),
                "ETT_OWN_PREFIX": server.key[:PREFIX_LENGTH],
            },
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        assert server.get("/v1/jobs") is not None
    assert done.returncode == 0, done.stdout[-8000:]
