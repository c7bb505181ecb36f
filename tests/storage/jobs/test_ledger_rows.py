"""Columns repeat what SQL needs, in SQL's own words."""

import msgspec

from ett_service.core.events import AttemptStarted, JobFacts, PhaseStarted
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Period, Phase
from ett_service.storage import schema
from ett_service.storage.jobs.ledgers import SHARES, Head, ledger_columns, rows
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.record import event, restarted_job

LEDGER = fold(
    [
        event(JobFacts, team="research", gpus=8, labels={"tier": "1"}),
        event(AttemptStarted),
        event(PhaseStarted, NOON + MINUTE, phase=Phase.TRAIN_LOOP),
    ],
    {},
    NOON + 3 * MINUTE,
)
HEAD = Head(revision=3, formula_version=1, event_count=3, folded_us=NOON, due_us=NOON + 1)


def test_the_columns_are_those_of_the_tables_in_their_order() -> None:
    for table, of_table in rows(fold(restarted_job(), {}, NOON + HOUR), HEAD).items():
        names = [column.name for column in table.columns][2:]
        assert of_table, table.name
        assert all(list(row) == names for row in of_table), table.name


def test_sql_can_sum_what_was_effective() -> None:
    columns = ledger_columns(LEDGER, HEAD)

    assert columns["e2e_us"] == 3 * MINUTE
    assert columns["effective_us"] == 2 * MINUTE
    assert columns["team"] == "research"
    assert columns["revision"] == 3


def test_the_answer_holds_all_but_the_lists() -> None:
    answer = msgspec.json.decode(ledger_columns(LEDGER, HEAD)["answer"], type=JobLedger)

    assert answer.facts == LEDGER.facts
    assert answer.quality == LEDGER.quality
    assert (answer.segments, answer.shares, answer.attempts) == ((), (), ())


def test_a_share_that_nobody_owned_has_an_empty_phase() -> None:
    unowned = next(share for share in LEDGER.shares if share.phase is None)

    assert unowned.category is Category.UNATTRIBUTED
    assert SHARES.columns(unowned)["phase"] == ""
    assert SHARES.key(unowned) == (Category.UNATTRIBUTED, Period.STARTING, "")


def test_each_list_has_a_table_of_its_own() -> None:
    counts = {table.name: len(rows) for table, rows in rows(LEDGER, HEAD).items()}

    assert counts[schema.segment.name] == len(LEDGER.segments) == 2
    assert counts[schema.attempt_ledger.name] == 1
    assert counts[schema.recovery.name] == 0
