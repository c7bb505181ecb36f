import csv
import io
import json
import re
from datetime import datetime, timedelta

import pytest

from ett_service.cli.fleet.fleet import write_top
from ett_service.cli.main import main
from tests.builders.jobs import repeated_job, steps_taking, wire_event
from tests.builders.servers.ett import Server
from tests.builders.servers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("in_environment")


DAY = ["--from", "2026-03-01T00:00:00Z", "--to", "2026-03-02T00:00:00Z"]
OF_LLM = ["--where", "model:llm", *DAY]


def test_the_fleet_is_summed_up_in_one_line_and_then_by_category(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["fleet", *OF_LLM]) == 0
    printed = capsys.readouterr().out
    # 8 accelerators for 560 s, in 30 s of which the job waited for them between its attempts.
    assert printed.startswith("ETT 50.0% of 1.2 weighted hours, 2026-03-01 00:00:00 to ")
    assert "held for 1.2 GPU-hours, which cost; for 0.1 h the jobs waited without" in printed
    rows = {
        name: values.split()
        for name, values in re.findall(r"^(\w+(?:, not held)?)  +(\d.*)$", printed, re.MULTILINE)
    }
    assert rows["effective_training"] == ["0.6", "50.0%", "-"]
    assert rows["restart_wait, not held"] == ["0.1", "5.4%", "-"]
    assert rows["all"][:2] == ["1.2", "100.0%"]
    shares = [row[1] for name, row in rows.items() if name != "all" and row[1].endswith("%")]
    assert sum(float(share.rstrip("%")) for share in shares) == pytest.approx(100, abs=0.5)
    assert re.search(r"^wall time +50\.0% +\d", printed, re.MULTILINE)
    assert "whose wait" in printed
    assert re.search(r"^framework +0\.\d +\d", printed, re.MULTILINE)
    assert "1 failure, " in printed


def test_slow_training_waits_for_data_and_time_between_runs_are_shown(
    served: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = [*steps_taking([1] * 18 + [2, 2]), wire_event("job", 0, model="slow")]
    waited = wire_event("heartbeat", 32, attributes={"data_wait_seconds": 132.0})
    twice = [*repeated_job("fleet-twice"), wire_event("job", 0, "fleet-twice", model="slow")]
    events = [*(event | {"job": "fleet-slow"} for event in (*slow, waited)), *twice]
    served.ask("POST", "/v1/events", {"history": True, "events": events})
    asked = "/v1/fleet/summary?where=model:slow&from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z"
    wait_for(lambda: served.ask("GET", asked)["total"]["jobs"] == 2)

    assert main(["fleet", "--where", "model:slow", *DAY]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^wall time .* 9\.1% +10\.0%$", shown, re.MULTILINE)
    assert "1 of those that ended or run report waits for data, 3h 00m between runs" in shown
    assert re.search(r"^at reference speed +2\.7 +52\.6% +20m 00s$", shown, re.MULTILINE)
    assert re.search(r"^slowed +0\.3 +5\.3% +2m 00s$", shown, re.MULTILINE)
    assert re.search(r"^not measured +2\.1 +42\.1% +16m 00s$", shown, re.MULTILINE)
    assert main(["fleet", *OF_LLM]) == 0
    assert "not measured" not in capsys.readouterr().out


def test_no_price_is_a_dash_and_never_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--by", "model", *OF_LLM]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("llm")]
    assert row.split()[-1] == "-"


def test_groups_have_a_row_each_and_a_total(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--by", "team,model", *OF_LLM]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split()[:5] == ["team", "model", "jobs", "ETT%", "slowed"]
    assert lines[4].split()[:5] == ["pretraining", "llm", "1", "50.0%", "-"]
    assert lines[5].split()[:3] == ["total", "1", "50.0%"]


def test_the_fleet_over_time_has_a_row_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "fleet",
                "--step",
                "1h",
                "--where",
                "model:llm",
                *DAY[:2],
                "--to",
                "2026-03-01T10:00:00Z",
            ]
        )
        == 0
    )
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("from (UTC)")
    assert len(rows) == 10
    assert rows[8].split()[:4] == ["2026-03-01", "08:00:00", "1", "50.0%"]
    assert rows[0].split()[2:4] == ["0", "-"]


def test_csv_and_json_are_the_answers_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--by", "team", "--csv", *OF_LLM]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["group.team"] == "pretraining"
    assert main(["fleet", "--by", "team", "--json", *OF_LLM]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [group["group"] for group in answer["groups"]] == [{"team": "pretraining"}]


def test_a_window_without_jobs_suggests_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--from", "2020-01-01T00:00:00Z", "--to", "2020-01-02T00:00:00Z"]) == 0
    assert "--from" in capsys.readouterr().out


def test_a_window_given_by_its_length_is_the_default_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    windows = set()
    for given in ([], ["--from", "7d"], ["--from", "1w"], ["--from", "168h"]):
        assert main(["fleet", "--json", *given]) == 0
        answer = json.loads(capsys.readouterr().out)
        begin, end = (datetime.fromisoformat(answer[side]) for side in ("from", "to"))
        windows.add(end - begin)
    assert windows == {timedelta(days=7)}


def test_a_dimension_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--by", "colour"]) == 1
    message = capsys.readouterr().err
    assert "group_by" in message
    assert "code_version" in message


def test_a_refused_parameter_is_named_with_what_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["fleet", "--from", "2026-03-01T00:00:00"]) == 1
    message = capsys.readouterr().err
    assert "/query/from" in message
    assert "RFC 3339 instant with an offset" in message


def test_a_step_that_the_window_cuts_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    week = ["--step", "1w", "--where", "model:llm", "--from", "2026-02-23", "--to", "2026-03-04"]
    assert main(["fleet", *week]) == 0
    _, whole, part, note = capsys.readouterr().out.splitlines()
    assert whole.startswith("2026-02-23 00:00:00  ")
    assert part.startswith("2026-03-02 00:00:00 (part)")
    assert note.startswith("(part): ")


def _top(capsys: pytest.CaptureFixture[str], what: str) -> list[str]:
    assert main(["fleet", "--top", what, *OF_LLM]) == 0
    return capsys.readouterr().out.splitlines()


def test_jobs_are_ranked_by_what_they_lost(capsys: pytest.CaptureFixture[str]) -> None:
    window, _, row, _ = _top(capsys, "jobs")
    assert window == "2026-03-01 00:00:00 to 2026-03-02 00:00:00 (UTC)"
    assert row.split()[:4] == ["llm-7b", "finished", "50.0%", "0.6"]


def test_causes_are_ranked_by_the_training_that_was_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    *_, row, summary = _top(capsys, "causes")
    assert row.split()[2:4] == ["1", "100.0%"]
    assert summary == "1 failure, 0 of them of origin infra or preemption."


def test_a_ranking_says_how_many_more_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    by = [
        {"origin": "user", "cause": f"cause-{n}", "count": n, "unsaved_training_seconds": 60.0 * n}
        for n in range(1, 13)
    ]
    failures = {"total": 78, "infra": 0, "by": by}
    window = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-08T00:00:00Z"}
    write_top({**window, "total": {"jobs": 9, "failures": failures}}, "causes")
    assert "2 more causes with 3 failures." in capsys.readouterr().out


def test_releases_are_ranked_by_what_their_attempts_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _top(capsys, "releases")[2].split()[:3] == ["(unknown)", "1", "50.0%"]


def test_the_answer_is_that_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--top", "jobs", "--json", *OF_LLM]) == 0
    assert [job["job"] for job in json.loads(capsys.readouterr().out)["jobs"]] == ["llm-7b"]
    assert main(["fleet", "--top", "jobs", "--csv", *OF_LLM]) == 0
    assert "llm-7b" in capsys.readouterr().out


def test_a_ranking_is_neither_grouped_nor_over_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--top", "jobs", "--by", "team"]) == 1
    assert "Leave one of them out." in capsys.readouterr().err


@pytest.mark.parametrize("what", ["jobs", "causes", "releases"])
def test_a_ranking_of_a_window_without_jobs_suggests_what_to_try(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "--top", what, "--from", "2020-01-01", "--to", "2020-01-02"]) == 0
    assert "--from begins earlier" in capsys.readouterr().out
