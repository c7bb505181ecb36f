import json
import re

import pytest

from ett_service.cli.main import main
from ett_service.cli.verb import now_us
from ett_service.core.intervals import SECOND_US, rfc3339
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("in_environment", "cohort")

_DAY = "2025-06-02"
_LIFE = (
    ("00", "job", {"model": "cohort-llm", "gpus": 8}),
    ("00", "attempt_started", {"gpus": 8}),
    ("00", "phase_started", {"phase": "launcher_init"}),
    ("10", "phase_started", {"phase": "train_loop"}),
    ("30", "progress", {"step": 100}),
    ("40", "attempt_ended", {"outcome": "completed"}),
)


@pytest.fixture(scope="module")
def cohort(served: Server) -> None:
    """Have three jobs of one model and kind, and one of another kind."""
    kinds = {"like-0": "sweep", "like-1": "sweep", "like-2": "sweep", "unlike": "canary"}
    events = [
        {"job": job, "type": name, "at": f"{_DAY}T08:{minute}:00Z", **members}
        | ({"kind": kind} if name == "job" else {})
        for job, kind in kinds.items()
        for minute, name, members in _LIFE
    ]
    served.ask("POST", "/v1/events", {"history": True, "events": events})
    wait_for(lambda: all(served.knows(job) for job in kinds))


def test_a_job_stands_beside_the_jobs_that_are_like_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "like-0", "--compare"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith(
        "like-0 beside 2 other jobs of model:cohort-llm kind:sweep, 2025-05-06 00:00:00 to "
    )
    (ett,) = [line for line in lines if line.startswith("ETT%")]
    assert ett.endswith("0 of 2")  # they are alike
    shares = [re.findall(r"[\d.]+%", line) for line in lines if re.match(r"[a-z_]+ +[\d.]+%", line)]
    assert shares
    assert all(mine == theirs for mine, theirs in shares)


def test_a_job_that_only_queued_has_no_ratio_to_compare(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, now = (rfc3339(now_us() - ago_s * SECOND_US) for ago_s in (540, 60))
    events: list[dict[str, object]] = [
        {"job": "ran", "at": now, "type": "job", "model": "queueing"},
        {"job": "queues", "at": now, "type": "job", "model": "queueing"},
        {"job": "ran", "at": begun, "type": "attempt_started"},
        {"job": "ran", "at": now, "type": "attempt_ended", "outcome": "completed"},
        {"job": "queues", "at": now, "type": "phase_started", "phase": "queued"},
    ]
    served.ask("POST", "/v1/events", {"events": events})
    wait_for(lambda: served.knows("ran") and served.knows("queues"))
    assert main(["job", "queues", "--compare"]) == 0
    printed = capsys.readouterr().out
    assert "failures" in printed
    assert not re.search(r"^(ETT|WTT)%", printed, re.MULTILINE)


def test_json_has_the_jobs_and_their_sums(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "like-0", "--compare", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {other["job"] for other in answer["others"]} == {"like-1", "like-2"}
    assert answer["fleet"]["jobs"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("unlike",), "no other job of model:cohort-llm kind:canary"),
        (("like-0", "--by", "cluster"), "neither of cluster"),
    ],
)
def test_a_job_without_a_cohort_is_told_what_to_try(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["job", "--compare", *arguments]) == 1
    printed = capsys.readouterr().err
    assert message in printed
    assert "--by" in printed
