"""The weekly report of four recorded weeks, and its golden files.

``make golden`` writes the files anew; review what changed in them before committing.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Connection, select
from starlette.testclient import TestClient

from ett_service.api.app import create_app
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    Impact,
    Metric,
    RunFinding,
    Series,
    Severity,
    Side,
    Subject,
    Suspect,
    Verdict,
)
from ett_service.core.regressions.state import StateRules
from ett_service.fleet.economy import Economy, Price, Target
from ett_service.report.document import Report, Week, html, markdown
from ett_service.report.inputs import Gathered, gather
from ett_service.report.weekly import weekly
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.keys import SCOPES, create_key
from ett_service.storage.regressions import findings
from ett_service.storage.schema import project
from ett_service.worker.ledgers import Worker
from tests.builders.servers.application import state_of
from tests.builders.weeks import WEEK, fleet

MINUTE_US = 60_000_000
FOLDER = Path(__file__).parent / "golden"
WRITERS = {"week.md": markdown, "week.html": html}

NOW_US = int(datetime(2026, 2, 23, 6, tzinfo=UTC).timestamp()) * 1_000_000
ECONOMY = Economy(
    prices=(Price("h100", 0, Fraction(5, 2)), Price("a100", 0, Fraction(3, 2))),
    targets=(Target({}, 0.9),),
)
DEPLOY = {
    "at": "2026-02-17T09:00:00Z",
    "kind": "deploy",
    "title": "trainer 4.2 <b>",
    "labels": {"service": "trainer"},
}


@contextmanager
def serving(store: Store) -> Iterator[TestClient]:
    """Serve *store*, filled with the four weeks, to a client whose key may do everything."""

    def now_us() -> int:
        return NOW_US

    state = state_of(store, now_us, economy=ECONOMY)
    worker = state.worker
    assert isinstance(worker, Worker)
    key = store.write(
        lambda conn: create_key(conn, project="research", name="test", scopes=SCOPES, now_us=NOW_US)
    )
    with TestClient(create_app(lambda: nullcontext(state))) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        jobs = list(fleet())
        for events in jobs:
            answer = client.post("/v1/events", json={"events": events, "history": True})
            assert answer.json()["rejected"] == 0, answer.text
        assert client.post("/v1/markers", json=DEPLOY).status_code == 201
        while worker.run_once():
            pass
        assert len(client.get("/v1/jobs").json()["jobs"]) == len(jobs), "not every job was folded"
        store.write(_find_regression)
        yield client


def _find_regression(conn: Connection) -> None:
    """Write down what two runs of a search would have found of the week's compiles.

    A little of it shows in all models together.
    """
    monday_us = NOW_US - 7 * DAY_US - 6 * HOUR_US
    before = Side(14, 10, 20.0 * MINUTE_US, 22.0 * MINUTE_US, monday_us - 28 * DAY_US, monday_us)
    after = Side(8, 3, 40.0 * MINUTE_US, 43.0 * MINUTE_US, monday_us, NOW_US)
    finding = Finding(
        Series(Subject(Metric.PHASE_SECONDS, "pt2_compile"), (("model", "llm-70b"),)),
        Verdict.REGRESSION,
        *(2.0, 1.7, 2.3, 1e-9, 1e-7, monday_us),
        *(before, after, ()),
        impact=Impact(64.0, -1.9, 160.0, "USD"),
    )
    cause = Attribution({}, {}, suspects=(Suspect("image", "trainer:4.2 <b>", 0.97, 4),))
    (project_id,) = conn.execute(select(project.c.id)).one()
    whole = replace(
        finding,
        series=finding.series._replace(cohort=()),
        ratio=1.2,
        impact=Impact(80.0, -0.4, 200.0, "USD"),
    )
    for day in (4, 5):
        both = [RunFinding(each, Severity.HIGH, cause) for each in (finding, whole)]
        findings.record(conn, project_id, monday_us + day * DAY_US, both, StateRules())


def gathered(client: TestClient, week: str = WEEK, **scope: object) -> Gathered:
    """Ask for what a report on *week* needs."""

    def ask(path: str, query: Mapping[str, object]) -> Any:
        sent = {name: value for name, value in query.items() if value is not None}
        answer = client.get(path, params=sent)  # type: ignore[arg-type]
        assert answer.status_code == 200, answer.text
        return answer.json()

    return gather(ask, Week.parse(week), ("model",), scope)


def report(client: TestClient) -> Report:
    """Return the report on the last of the weeks."""
    return weekly(gathered(client))


def main() -> None:
    """Write the golden files."""
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ett.db"
        migrate(url)
        with closing(open_store(url)) as store, serving(store) as client:
            weekly_report = report(client)
    for name, write in WRITERS.items():
        (FOLDER / name).write_text(write(weekly_report), "utf-8")


if __name__ == "__main__":
    main()
