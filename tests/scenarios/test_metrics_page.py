"""Names made up to break the page of metrics, sent to a real server and scraped."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ett_service.client.sending.transport import request
from ett_service.metrics.families import TextFormat
from ett_service.storage.metrics.counters import label
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import wire_event
from tests.builders.metrics import Page, labelled, lint, parsed
from tests.builders.servers.ett import Server, serving
from tests.builders.servers.waiting import PATIENCE_S, wait_for

STARTED, RUNNING = "ett_attempts_started_total", "ett_attempts_running"

TAKEN = (
    'quo"te',
    "back\\slash",
    "ends in \\",
    "\\n and {brace} a,b=c",
    "# HELP ett_attempts_running x",
    "</script><script>alert(1)</script>",
    "%s %r %(x)s",
    "Größe 大 🚀",
    " ",
    "NaN",
    "x" * 256,
)
REFUSED = {
    "new\nline": "bad_text",
    "null\x00": "bad_text",
    "line\u2028separator": "bad_text",
    "half \ud800 of a pair": "bad_text",
    "right\u202eto left": "bad_text",
    "x" * 257: "bad_length",
    "x" * 500_000: "too_large",
}


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    with serving(database_url, tmp_path, ETT_METRICS='{"every_seconds": 0.2}') as server:
        yield server


def _scraped(server: Server, form: TextFormat) -> tuple[bytes, Page]:
    answer = request(
        "GET", f"{server.url}/metrics", headers={"Accept": form.value}, timeout=PATIENCE_S
    )
    assert answer.status == 200
    return answer.body, parsed(answer.body.decode(), form)


@ON_ONE_ENGINE
def test_no_name_that_a_user_makes_up_breaks_the_page(server: Server) -> None:
    for number, name in enumerate((*TAKEN, *REFUSED)):
        facts = wire_event("job", 0, job=f"job-{number}", model=name, cluster=name)
        ended = wire_event("attempt_ended", 1, job=f"job-{number}", outcome="failed")
        assert server.send([facts, ended]).status == 200

    def shown() -> Page | None:
        _, page = _scraped(server, TextFormat.OPENMETRICS)
        started, running = (page.get(name, {}) for name in (STARTED, RUNNING))
        # Gauges come a moment after the counters.
        is_whole = sum(started.values()) == len(TAKEN) + len(REFUSED) and len(running) > len(TAKEN)
        return page if is_whole else None

    page = wait_for(shown)
    expected = {(label(name),) * 2 for name in TAKEN} | {("unknown", "unknown")}
    clusters = {dict(labels)["cluster"] for labels in page["ett_failures_total"]}
    assert clusters == {cluster for cluster, _ in expected}
    for cluster, cohort in expected:
        assert labelled(cluster=cluster, cohort=cohort) in page[RUNNING]
    text, plain = _scraped(server, TextFormat.PLAIN)
    assert lint(text) == ""
    assert plain.keys() == page.keys()
    assert plain["ett_collector_errors_total"] == {(): 0}
    refused = plain["ett_ingest_events_rejected_total"]
    for code in set(REFUSED.values()):
        count = sum(each == code for each in REFUSED.values())
        assert refused[labelled(code=code)] == count
