"""A trainer beside a real server: the ledger that is read is the fold of the spool."""

import time
from functools import partial
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


def test_a_launch_under_the_name_of_a_finished_job_says_so_once(
    served: Service, tmp_path: Path
) -> None:
    trainer = "ett.init('again'); ett.flush(10); ett.end({}); ett.flush(10)"
    with served.project("again") as service:
        variables = environment(tmp_path, service.url, ETT_API_KEY=service.key)
        said = []
        for attempts, end in enumerate(("final=True", "", ""), start=1):
            done = run_trainer(trainer.format(end), variables)
            said += [line for line in done.stderr.splitlines() if "was finished" in line]
            wait_for(partial(_is_over, service, attempts))
    assert said == [
        "ett: job again was finished: this launch begins another run of it",
        "ett: job again was finished, but nobody ended it: the time since then is restart wait",
    ]


def _is_over(service: Service, attempts: int) -> bool:
    if not service.knows("again"):
        return False
    answer = service.read("/v1/jobs/again")
    return answer["state"] == "finished" and len(answer["attempts"]) == attempts
