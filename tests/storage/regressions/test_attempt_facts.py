"""What is known of attempts, from ledgers and from what their events say beside."""

from collections.abc import Mapping, Sequence
from typing import Any

from ett_service.core.events import AttemptEnded, AttemptStarted, Event, JobFacts, SpanOver
from ett_service.core.words import Outcome, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.regressions.attempt_facts import attempt_facts
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.fleet import store_job
from tests.builders.record import event


def compiled(start: int, cache: str, **members: Any) -> SpanOver:
    """Return a minute of compiling, with the state of its cache."""
    return event(
        SpanOver,
        start + MINUTE,
        start=start,
        phase=Phase.PT2_COMPILE,
        attributes={"compile_cache": cache},
        **members,
    )


def restarted_job() -> Sequence[Event]:
    """Return a job of two attempts, the second with other code on two hosts."""
    facts: Mapping[str, Any] = {
        "hardware": "H100",
        "image": "trainer:2",
        "team": "speech",
        "code_version": "1",
        "gpus": 16,
    }
    labels = {"data_source": "crawl", "cost_center": "7"}
    return [
        event(JobFacts, labels=labels, **facts),
        event(AttemptStarted, host="node-1"),
        compiled(NOON, "cold"),
        event(AttemptEnded, NOON + 10 * MINUTE, outcome=Outcome.FAILED),
        event(AttemptStarted, NOON + HOUR, attempt=1, code_version="2", gpus=8, host="node-2"),
        event(AttemptStarted, NOON + HOUR, attempt=1, rank=8, host="node-1"),
        compiled(NOON + HOUR, "warm", attempt=1),
        compiled(NOON + HOUR, "cold", attempt=1, rank=8),
        event(AttemptEnded, NOON + 2 * HOUR, attempt=1, outcome=Outcome.COMPLETED),
    ]


def test_an_attempt_has_its_jobs_facts_and_its_own(store: Store, project_id: int) -> None:
    store_job(store, project_id, "llm", restarted_job())
    with store.reading() as conn:
        facts = attempt_facts(conn, project_id, [("llm", 0), ("llm", 1)])

    first, second = facts["llm", 0], facts["llm", 1]
    assert dict(first.values) == {
        "code_version": "1",
        "image": "trainer:2",
        "hardware": "H100",
        "precision": "",
        "kind": "",
        "team": "speech",
        "model": "",
        "cluster": "",
        "size": "16-31",
        "start": "first",
        "compile_cache": "cold",
    }
    assert (first.hosts, first.started_us) == (("node-1",), NOON)
    assert dict(first.labels) == {"data_source": "crawl", "cost_center": "7"}
    own = {name: second.values[name] for name in ("code_version", "size", "start", "compile_cache")}
    assert own == {
        "code_version": "2",
        "size": "8-15",
        "start": "restart",
        "compile_cache": "mixed",
    }
    assert second.hosts == ("node-1", "node-2")


def test_only_what_is_asked_for_is_answered_and_only_of_ones_own_project(
    store: Store, project_id: int
) -> None:
    store_job(store, project_id, "llm", restarted_job())
    with store.reading() as conn:
        assert set(attempt_facts(conn, project_id, [("llm", 1), ("llm", 9), ("no", 0)])) == {
            ("llm", 1)
        }
        assert attempt_facts(conn, project_id + 1, [("llm", 1)]) == {}
        assert attempt_facts(conn, project_id, []) == {}
