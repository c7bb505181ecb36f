"""A trainer beside a real server: the ledger that is read is the fold of the spool."""

import time
from pathlib import Path

from ett_service.core.ledger.fold import fold
from tests.builders.plain_ledgers import plain
from tests.builders.servers.waiting import wait_for
from tests.builders.timelines import event
from tests.builders.trainers import environment, run_trainer, spooled
from tests.contract.described import Service
from tests.contract.test_timelines import in_microseconds

TRAINER = """
import os, shutil, time
ett.init("e2e", gpus=8, model="m", labels={"a": "b"})
with ett.phase("launcher_init"), ett.stage("preproc_creation"):
    time.sleep(0.01)
with ett.train_loop():
    for step in range(5):
        time.sleep(0.005)
        ett.step(step)
    with ett.checkpoint(4):
        time.sleep(0.01)
with ett.phase("shutdown"):
    time.sleep(0.01)
ett.end(final=True)
shutil.copytree(os.environ["ETT_SPOOL"], os.environ["ETT_SPOOL"] + ".copy")
assert ett.flush(10)
"""


def test_the_ledger_that_is_read_is_the_fold_of_the_spool(served: Service, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with served.project("trainers") as service:
        variables = environment(spool, service.url, ETT_API_KEY=service.key)
        run = run_trainer(TRAINER, variables)
        assert run.returncode == 0, run.stderr
        wait_for(lambda: service.knows("e2e"))
        wait_for(lambda: service.read("/v1/jobs/e2e")["state"] == "finished")
        answered = in_microseconds(
            service.read("/v1/jobs/e2e"), service.read("/v1/jobs/e2e/ledger")
        )
        page = service.read("/v1/jobs/e2e/events?limit=1000")

    events = spooled(spool.with_name("spool.copy"))
    ledger = fold([event(sent) for sent in events], {}, time.time_ns() // 1000)
    assert answered == plain(ledger)
    assert answered["categories_us"]["effective_training"] > 0
    assert {sent["id"] for sent in page["events"]} == {sent["id"] for sent in events}
