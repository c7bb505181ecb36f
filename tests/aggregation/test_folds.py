"""Kept folds are owned by whoever takes them, and do not grow without end."""

from ett_service.aggregation.fold_job import Folds, KeptFold
from ett_service.core.ledger.fold import JobFold
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.clock import NOON
from tests.builders.record import progress


def folded(job: str, events: int) -> KeptFold:
    fold = JobFold()
    fold.add([progress(step) for step in range(events)], {})
    return KeptFold(JobKey(1, job), fold, born_us=0, revision=1, ledger=fold.ledger(NOON))


def test_a_fold_is_taken_once() -> None:
    folds = Folds()
    fold = folded("a", 3)
    folds.keep(fold)

    assert folds.take(fold.key) is fold
    assert folds.take(fold.key) is None


def test_the_one_unused_for_longest_goes_first() -> None:
    folds = Folds(most_events=10)
    first, second, third = folded("a", 4), folded("b", 4), folded("c", 4)
    folds.keep(first)
    folds.keep(second)
    folds.keep(first)
    folds.keep(third)

    assert folds.take(second.key) is None
    assert folds.take(first.key) is first
    assert folds.take(third.key) is third


def test_a_fold_larger_than_all_room_is_not_kept() -> None:
    folds = Folds(most_events=10)
    folds.keep(folded("a", 11))
    small = folded("b", 10)
    folds.keep(small)

    assert folds.take(JobKey(1, "a")) is None
    assert folds.take(small.key) is small
