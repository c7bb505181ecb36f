"""A stored fleet whose launcher or steps became slow with a release, ten days before its end."""

import random
from collections.abc import Iterator

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    JobFacts,
    Marker,
    MarkerKind,
    Progress,
    SpanOver,
)
from ett_service.core.words import Outcome, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.record.markers import add_marker
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT, SECOND
from tests.builders.fleet import store_job
from tests.builders.record import event

DAY = 24 * HOUR
DAYS = 44
SLOW_DAYS = 10
A_DAY = 2
STEP = SECOND // 25
END = NOON + 12 * HOUR
"""A midnight."""
ONSET = END - SLOW_DAYS * DAY
OLD, NEW = "2026.08", "2026.09"


def slowed(
    store: Store,
    project_id: int,
    factor: float = 2.0,
    *,
    onset: int = ONSET,
    until: int = END,
) -> None:
    """Keep 44 days of two jobs a day, one on either cluster; those of one become slow."""
    draws = random.Random(3)
    for index in range(DAYS * A_DAY):
        day, turn = divmod(index, A_DAY)
        at = END - (DAYS - day) * DAY + turn * 9 * HOUR
        cluster = "a" if turn % 2 else "b"
        is_new = at >= onset
        slow = factor if is_new and cluster == "a" and at < until else 1.0
        init_us = round(slow * 100 * SECOND * draws.lognormvariate(0, 0.15))
        version = NEW if is_new else OLD
        store_job(store, project_id, f"job-{index:03}", list(_job(at, cluster, version, init_us)))
    release = Marker("release", onset, MarkerKind.DEPLOY, f"Release {NEW}", None, {})
    store.write(
        lambda conn: add_marker(conn, project_id, release, made_by="ett_x", now_us=RECEIVED_AT)
    )


def _job(at: int, cluster: str, version: str, init_us: int) -> Iterator[Event]:
    looping = at + init_us
    over = looping + 30 * MINUTE
    yield event(JobFacts, at, cluster=cluster, model="m", hardware="H100")
    yield event(AttemptStarted, at, gpus=8, code_version=version)
    yield event(SpanOver, looping, start=at, phase=Phase.LAUNCHER_INIT)
    yield event(SpanOver, over, start=looping, phase=Phase.TRAIN_LOOP)
    yield event(AttemptEnded, over, cycle=0, outcome=Outcome.COMPLETED)


def slower_steps(store: Store, project_id: int, factor: float = 1.25) -> None:
    """Keep 44 days of two jobs a day, one on either cluster; the steps of one become slow."""
    draws = random.Random(5)
    for index in range(DAYS * A_DAY):
        day, turn = divmod(index, A_DAY)
        at = END - (DAYS - day) * DAY + turn * 9 * HOUR
        cluster, is_new = "a" if turn else "b", at >= ONSET
        step_s = draws.lognormvariate(0, 0.03) * (factor if is_new and cluster == "a" else 1.0)
        job = list(_stepping(at, cluster, NEW if is_new else OLD, round(step_s * STEP)))
        store_job(store, project_id, f"job-{index:03}", job)


def _stepping(at: int, cluster: str, version: str, step_us: int) -> Iterator[Event]:
    """Six windows of 100 steps."""
    over = at + 600 * step_us
    yield event(JobFacts, at, cluster=cluster, model="m", hardware="H100")
    yield event(AttemptStarted, at, gpus=8, code_version=version)
    for step in range(0, 601, 100):
        yield event(Progress, at + step * step_us, step=step, tokens=step * 4096)
    yield event(SpanOver, over, start=at, phase=Phase.TRAIN_LOOP)
    yield event(AttemptEnded, over, cycle=0, outcome=Outcome.COMPLETED)
