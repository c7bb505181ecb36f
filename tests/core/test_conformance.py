"""The fold and the oracle against timelines whose answers others agreed on."""

import random
from collections.abc import Sequence

import pytest

from ett_service.core.events import Event
from ett_service.core.ledger.fold import JobFold, fold
from tests.builders.drawn.timelines import in_batches
from tests.builders.plain_ledgers import plain
from tests.builders.timelines import FILES, cases
from tests.core.oracle import answer


@pytest.mark.parametrize("file", FILES)
def test_the_fold_gives_every_answer_of_the_suite(file: str) -> None:
    for case in cases(file):
        assert plain(fold(case.events, {}, case.as_of)) == case.expected, case.name


@pytest.mark.parametrize("file", FILES)
def test_the_oracle_gives_every_answer_of_the_suite(file: str) -> None:
    for case in cases(file):
        assert answer(case.events, {}, case.as_of) == case.expected, case.name


@pytest.mark.parametrize("file", FILES)
def test_a_shuffled_and_duplicated_copy_gives_the_same_answers(file: str) -> None:
    for case in cases(file):
        chance = random.Random(case.name)
        events = shuffled_and_duplicated(case.events, chance)
        assert plain(fold(events, {}, case.as_of)) == case.expected, case.name


@pytest.mark.parametrize("file", FILES)
def test_folding_forward_batch_by_batch_gives_the_same_answers(file: str) -> None:
    for case in cases(file):
        chance = random.Random(case.name)
        job_fold = JobFold()
        seen: list[Event] = []
        for batch in in_batches(sorted(case.events, key=lambda event: event.at), chance):
            seen += batch
            if not job_fold.add(batch, {}):
                job_fold = JobFold()
                job_fold.add(seen, {})
            job_fold.ledger(max((event.at for event in seen), default=case.as_of))
        assert plain(job_fold.ledger(case.as_of)) == case.expected, case.name


def shuffled_and_duplicated(events: Sequence[Event], chance: random.Random) -> list[Event]:
    """The same set of events, in another order, some of them twice."""
    copy = [*events, *chance.sample(events, len(events) // 3)]
    chance.shuffle(copy)
    return copy
