"""Rollups are the sum over the jobs' events, whatever arrived when and was taken back."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from ett_service.aggregation.fold_job import KeptFold
from ett_service.aggregation.verify import repair
from ett_service.core.events import Event, Exclusion, JobFacts, SpanOver
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.ledger.attempt_results import FailureVerdict
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS
from ett_service.core.words import Cause, Origin
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import cohort_cap, hours
from ett_service.storage.fleet.cohort_cap import ProjectDay
from ett_service.storage.record import corrections
from ett_service.storage.record.corrections import NoFailure, NothingThere
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from ett_service.storage.retention import delete_job
from ett_service.storage.schema import cohort_day
from tests.builders.clock import RECEIVED_AT
from tests.builders.databases.engines import clear
from tests.builders.drawn.timelines import Timeline, in_batches, timelines
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event
from tests.builders.rollups import check_rollups

#: More where ``make laws`` asks for more than usual; each is a fleet's life in a database.
_EXAMPLES = max(15, settings().max_examples // 10)
_SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
_chances = st.integers(0, 2**32).map(Random)
_fleets = st.lists(timelines, min_size=1, max_size=3)


class Life:
    """A job with its batches still to deliver."""

    def __init__(self, store: Store, key: JobKey, timeline: Timeline, chance: Random) -> None:
        self.store, self.key, self.chance = store, key, chance
        self.timeline = timeline
        events = list(timeline.events)
        chance.shuffle(events)
        self.batches = in_batches(events, chance)
        self.kept_fold: KeptFold | None = None
        self.now_us = timeline.as_of

    def deliver_next(self) -> None:
        offsets = self.timeline.offsets if self.chance.random() < 0.3 else None
        deliver(self.store, self.key, self.batches.pop(), offsets)

    def change_team(self) -> None:
        members: dict[str, Any] = {
            "team": self.chance.choice("ab"),
            "code_version": self.chance.choice("12"),
        }
        deliver(self.store, self.key, [event(JobFacts, self.now_us, **members)])

    def refresh_ledger(self) -> None:
        self.now_us += self.chance.choice([0, 1, 5_000_000_000])
        kept_fold = self.kept_fold if self.chance.random() < 0.7 else None
        # A fold that was not used is out of date, and must be recognised as such.
        self.kept_fold = refreshed(self.store, self.key, self.now_us, kept_fold) or self.kept_fold

    def correct_cause(self) -> None:
        cause = self.chance.choice([Cause.NETWORK, Cause.HOST])
        verdict = FailureVerdict(Origin.INFRA, cause, "seen", "maker", self.now_us)
        try:
            self.store.write(lambda conn: corrections.put_verdict(conn, self.key, 0, verdict))
        except (NoFailure, NothingThere):
            return

    def exclude_job(self) -> None:
        start = self.now_us - self.chance.randrange(10_000_000_000)
        window = self.chance.choice([Exclusion(), Exclusion(start), Exclusion(start, self.now_us)])
        try:
            self.store.write(
                lambda conn: corrections.put_exclusion(
                    conn, self.key, [window], why="a test", made_by="maker", now_us=self.now_us
                )
            )
        except NothingThere:
            return

    def remove_job(self) -> None:
        self.store.write(lambda conn: delete_job(conn, self.key))

    def move_a_cohort(self) -> None:
        with self.store.reading() as conn:
            seen = conn.execute(select(cohort_day)).all()
        if seen:
            row = self.chance.choice(seen)
            day = ProjectDay(row.project_id, row.day_us)
            self.store.write(
                lambda conn: cohort_cap.move(conn, day, [row.cohort_id], own=not row.kept)
            )

    def prune_hours(self) -> None:
        # The horizon only moves forward: one that is far ahead would leave no hour to compare.
        before_us = self.now_us - self.chance.choice([0, 0, 1, 2]) * DAY_US
        self.store.write(lambda conn: hours.move_horizon(conn, before_us))
        while self.store.write(lambda conn: hours.prune(conn, 7)):
            pass

    def refold_all(self) -> None:
        """Do what ``ett recompute`` does to the rollups."""
        repair(self.store)

    def act_once(self) -> None:
        acts = [
            self.refresh_ledger,
            self.refresh_ledger,
            self.change_team,
            self.correct_cause,
            self.exclude_job,
            self.move_a_cohort,
            self.prune_hours,
            self.prune_hours,
            self.refold_all,
        ]
        if self.batches:
            acts += [self.deliver_next] * 4
        if self.chance.random() < 0.1:
            acts = [self.remove_job]
        self.chance.choice(acts)()


def moved(timeline: Timeline, by_us: int) -> Timeline:
    """Return the same, later: so that jobs have hours on both sides of a midnight."""

    def later(event: Event) -> Event:
        members: dict[str, Any] = {"at": event.at + by_us}
        if isinstance(event, SpanOver):
            members["start"] = event.start + by_us
        return replace(event, **members)

    events = tuple(map(later, timeline.events))
    return replace(timeline, events=events, as_of=timeline.as_of + by_us, limits=DEFAULT_LIMITS)


def check_random_acts(store: Store, fleet: Sequence[Timeline], chance: Random) -> None:
    clear(store)
    project_id = store.write(lambda conn: create_project(conn, "research", RECEIVED_AT))
    lives = [
        Life(
            store,
            JobKey(project_id, f"job-{number}"),
            moved(timeline, chance.choice([0, 14, 15, 16, 24, 48]) * HOUR_US),
            chance,
        )
        for number, timeline in enumerate(fleet)
    ]
    for _ in range(chance.randrange(4, 24)):
        chance.choice(lives).act_once()
    for life in lives:
        life.refresh_ledger()
    check_rollups(store)


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=_SLOW)
@given(fleet=_fleets, chance=_chances)
def test_rollups_sum_up_what_the_events_say(
    store: Store, fleet: Sequence[Timeline], chance: Random
) -> None:
    check_random_acts(store, fleet, chance)
