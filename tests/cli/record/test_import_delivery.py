"""Runs sent whole or not at all, to servers that refuse, are busy, or are real."""

import json
from argparse import Namespace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from ett_service.cli.main import main
from ett_service.cli.record.import_delivery import post, retry_after_s
from ett_service.cli.verb import Failure
from ett_service.client.sending.transport import Response
from tests.builders.mllog import RUN, START_S, line, run_lines, written
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.web import Received, Reply, accepting, serving

IN_2099 = 4_070_908_800


def with_a_future(folder: Path, name: str = "result_1.txt") -> Path:
    """Write a run whose last evaluation lies in 2099; it would be a job without most of itself."""
    stray = line("eval_start", IN_2099 - START_S), line("eval_stop", IN_2099 - START_S + 5)
    bare = [text for text in run_lines(200) if "RUNANDTIME" not in text]
    return written(folder, *bare, *stray, name=name)


def test_a_run_of_which_a_part_would_be_refused_is_not_sent_at_all(
    served: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ETT_URL", served.url)
    monkeypatch.setenv("ETT_API_KEY", served.key)
    written(tmp_path, *RUN)
    future = with_a_future(tmp_path)

    assert main(["import", "mlperf", str(tmp_path)]) == 1

    printed = capsys.readouterr()
    assert printed.out == "llama2-2xBOX-20250421T185730.000Z\n"
    assert f"{future}:" in printed.err
    assert "timestamp_out_of_range in start of a span" in printed.err
    assert "2099-01-01T00:00:00.000000Z: its run is not imported" in printed.err
    assert "1 runs were not imported" in printed.err
    wait_for(lambda: served.knows("llama2-2xBOX-20250421T185730.000Z"))
    assert not served.knows("llama2-2xBOX-20250421T190049.000Z")


def test_a_dry_run_leaves_such_a_run_out_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    future = with_a_future(tmp_path)

    assert main(["import", "mlperf", str(future), "--dry-run"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{future}:" in printed.err
    assert "Nothing was printed." in printed.err


def refusing_the_first(got: Received) -> Reply:
    """Refuse the first event of a batch, as a server with tighter limits would."""
    verdict = json.loads(accepting(got).body)
    refused = {"accepted": verdict["accepted"] - 1, "rejected": 1}
    errors = [{"index": 0, "id": "x", "code": "bad_length", "pointer": "/events/0/labels"}]
    return Reply(body=json.dumps({**verdict, **refused, "errors": errors}).encode())


def test_what_a_server_refuses_all_the_same_is_named_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path, *RUN)
    with serving(refusing_the_first) as web:
        assert main(["import", "mlperf", str(log), "--url", web.url, "--json"]) == 1

    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    assert summary["codes"] == {"bad_length": 1}
    assert (summary["rejected"], summary["accepted"]) == (1, summary["events"] - 1)
    (broken,) = summary["broken_jobs"].values()
    assert broken.startswith(f"{log}:2: bad_length in labels of a job at 2025-04-21T18:57:30")
    assert "Traceback" not in printed.err
    assert "`ett jobs delete NAME`" in printed.err


def test_a_request_of_which_nothing_stands_names_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusing_all(got: Received) -> Reply:
        errors = [
            {"index": index, "code": "conflict", "pointer": f"/events/{index}/id"}
            for index in range(len(got.batch["events"]))
        ]
        problem = {"title": "Refused", "status": 422, "errors": errors}
        return Reply(422, json.dumps(problem).encode())

    log = written(tmp_path, *RUN)
    with serving(refusing_all) as web:
        assert main(["import", "mlperf", str(log), "--url", web.url, "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["codes"] == {"conflict": summary["events"]}
    assert len(summary["broken_jobs"]) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_when_it_says(tmp_path: Path, status: int) -> None:
    answers = [Reply(status, headers={"Retry-After": "0"})] * 2

    def busy(got: Received) -> Reply:
        return answers.pop() if answers else accepting(got)

    with serving(busy) as web:
        assert main(["import", "mlperf", str(written(tmp_path, *RUN)), "--url", web.url]) == 0
        ids = [json.dumps(got.batch["events"]) for got in web.received]

    assert len(ids) == 3
    assert len(set(ids)) == 1


def test_a_server_that_asks_for_longer_than_anyone_waits_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda _: Reply(503, headers={"Retry-After": "86400"})) as web:
        assert main(["import", "mlperf", str(written(tmp_path, *RUN)), "--url", web.url]) == 1
    assert "busy (status 503) and asks for 86400 s" in capsys.readouterr().err


def test_without_a_wish_the_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    with serving(lambda _: Reply(503)) as web, pytest.raises(Failure):
        post(Namespace(url=web.url, key=None), {})

    assert pauses[:6] == [1, 2, 4, 8, 16, 30]
    assert sum(pauses) <= 600


def test_a_date_to_come_back_at_is_understood() -> None:
    def wait(text: str) -> Any:
        return retry_after_s(Response(503, {"retry-after": text}, b""), 7.0)

    assert (wait("12"), wait("soon"), wait("")) == (12, 7, 7)
    assert wait(formatdate(0, usegmt=True)) == 0
    assert wait(formatdate(IN_2099, usegmt=True)) > 1e9


def test_a_long_run_goes_in_parts_and_short_ones_together(tmp_path: Path) -> None:
    steps = [line("tracked_stats", 31 + n / 100, samples_count=n) for n in range(1, 1200)]
    written(tmp_path, *run_lines(200), name="result_1.txt")
    written(tmp_path, *RUN, *steps)
    with serving() as web:
        assert main(["import", "mlperf", str(tmp_path), "--url", web.url]) == 0
        sizes = [len(got.batch["events"]) for got in web.received]

    assert sizes[:2] == [500, 500]
    assert len(web.events) == sum(sizes) > 1200
