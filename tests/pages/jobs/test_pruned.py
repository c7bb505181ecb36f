"""Pages of a job whose record was pruned say what is gone, and show what stays."""

import re

from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.store import Store
from ett_service.storage.retention import Kept
from ett_service.worker.retention import Pruner
from tests.builders.clock import RECEIVED_AT
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job
from tests.builders.servers.site import Document, served

PAGE = "/jobs/llm-70b"


@ON_ONE_ENGINE
def test_pages_of_a_pruned_job_say_what_is_gone(store: Store) -> None:
    with served(store, RECEIVED_AT) as site:
        site.ingest(failing_job())
        before = Document.of(site.reader().get(PAGE))
        site.clock.now_us += 99 * DAY_US
        pruner = Pruner(store, site.clock, Kept(60 * DAY_US, None))
        while pruner.step():
            pass
        reader = site.reader()

        page = Document.of(reader.get(PAGE))

        assert "were pruned on" in page.text_of("section", id="life")
        assert "were pruned on" not in before.text_of("section", id="life")
        why = re.sub(r" Its (stages|compiles)\.", "", before.text_of("section", id="why"))
        assert page.text_of("section", id="why") == why
        assert not {f"{PAGE}/events", f"{PAGE}/compile", f"{PAGE}/stages"} & set(page.links)
        for gone in ("events", "compile", "attempts/0"):
            refused = Document.of(reader.get(f"{PAGE}/{gone}"), status=410)
            assert "were pruned on" in " ".join(each.text for each in refused.all("p"))
