"""Whatever was recorded, and however little of it, every page can be shown."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import instant as us_of
from tests.builders.servers.site import Document, Site, served_from
from tests.golden.fleet import NOW, instant

AT, LATER = instant(NOW - timedelta(hours=3)), instant(NOW - timedelta(hours=1))
START = {"type": "attempt_started", "at": AT}
LOOP = {"type": "phase_started", "phase": "train_loop", "at": AT}
SAVE = {"type": "checkpoint_saved", "step": 1, "at": LATER}
FAILED = {"type": "attempt_ended", "outcome": "failed", "at": LATER}

FLEETS: dict[str, list[dict[str, Any]]] = {
    "a job that only queues": [{"type": "phase_started", "phase": "queued", "at": AT}],
    "a heartbeat": [{"type": "heartbeat", "at": LATER}],
    "a save without a loop": [START, SAVE],
    "a loop without accelerators": [START, LOOP, FAILED],
    "an empty attempt": [{**START, "gpus": 8}, {**FAILED, "at": AT}],
    "a failure that was never saved": [{**START, "gpus": 8}, LOOP, FAILED],
    "a job that has ended": [START, LOOP, {**FAILED, "type": "job_ended"}],
}
PAGES = (
    "/",
    "/?window=1d&by=team",
    "/jobs",
    "/jobs/odd",
    "/checkpoints",
    "/what-if",
    "/changes",
    "/quality",
)


@pytest.fixture(scope="module")
def odd_site(_migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the site of fleets that have hardly anything, each in a project of its own."""
    folder = tmp_path_factory.mktemp("odd-pages")
    with served_from(_migrated_sqlite, folder, us_of(instant(NOW))) as running:
        yield running


def test_a_job_that_only_queues_has_no_numbers_yet(odd_site: Site) -> None:
    key = odd_site.key(["write", "read"], project="queueing")
    events = FLEETS["a job that only queues"]
    odd_site.ingest([{"job": "odd", "attempt": 0} | event for event in events], key)
    page = Document.of(odd_site.reader(key).get("/jobs"))
    cells = [each.text.strip() for each in page.all("td")]
    assert "0.0s" not in cells
    assert not any("0.0%" in cell for cell in cells)
    assert cells.count("-") >= 6


@pytest.mark.parametrize("name", FLEETS)
def test_every_page_can_be_shown(odd_site: Site, name: str) -> None:
    key = odd_site.key(["write", "read"], project=name)
    odd_site.ingest([{"job": "odd", "attempt": 0} | event for event in FLEETS[name]], key)
    browser = odd_site.reader(key)
    answers = {path: browser.get(path).status_code for path in PAGES}
    assert answers == dict.fromkeys(PAGES, 200)
