"""Every body is either events that can be stored or refusals, whatever it holds."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.events import EVENT_TYPES, Progress
from ett_service.core.words import Phase
from ett_service.ingest.members import arrival
from ett_service.ingest.refusals import Code, Refused
from ett_service.storage.record.events import decode_body
from tests.builders.batches import NDJSON, batch, read
from tests.builders.record import event, wire

MEMBERS = sorted({name for kind in EVENT_TYPES.values() for name in kind.__dataclass_fields__})

texts = st.text(max_size=8) | st.sampled_from(
    [
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:60Z",
        "\ud800",
        "a\x00",
        "SIGKILL",
        "failed",
        "oom",
        "x" * 300,
        *Phase,
        *EVENT_TYPES,
    ]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
mutated_events = st.builds(
    lambda kind, changes, extra: {**wire(kind, step=1, phase="train_loop"), **changes, **extra},
    st.sampled_from([*EVENT_TYPES]),
    st.dictionaries(st.sampled_from(MEMBERS), json_values, max_size=3),
    st.dictionaries(texts, json_values, max_size=1),
)
valid_events = st.builds(
    lambda step, members: wire("progress", step=step, **members),
    st.integers(0, 2**53 - 1),
    st.fixed_dictionaries(
        {},
        optional={
            "rank": st.integers(0, 9),
            "host": st.sampled_from(["n1", "é"]),
            "samples": st.integers(0, 99),
            "attributes": st.dictionaries(st.text(max_size=4), scalars, max_size=2),
        },
    ),
)


@given(value=json_values)
def test_any_json_is_read_or_refused(value: Any) -> None:
    body = json.dumps(value).encode()
    for headers in (None, NDJSON):
        try:
            read(body, headers)
        except Refused:
            continue


@given(body=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for headers in (None, NDJSON, {"Content-Encoding": "gzip"}, {"Content-Encoding": "zstd"}):
        try:
            read(body, headers)
        except Refused:
            continue


@given(events=st.lists(mutated_events | json_values, max_size=4))
def test_every_event_has_one_verdict_and_what_is_taken_can_be_kept(events: list[Any]) -> None:
    verdicts = batch(*events, wire())
    taken = [each.index for each in verdicts.arrivals]
    refused = [each.index for each in verdicts.refusals if each.index is not None]

    assert sorted(taken + refused) == [*range(len(events) + 1)]
    assert verdicts.arrivals[-1].index == len(events)
    for each in verdicts.arrivals:
        assert decode_body(each.event.type, each.id, each.at, each.body) == each.event
        each.body.encode()
        each.job.encode()
    for refusal in verdicts.refusals:
        assert refusal.pointer.startswith(f"/events/{refusal.index}")
        assert refusal.code in Code


@given(sent=valid_events)
def test_an_event_without_fault_is_taken_and_has_one_id(sent: dict[str, Any]) -> None:
    again = dict(reversed(sent.items()))
    verdicts = batch(sent, again)

    if verdicts.refusals:  # an attribute too large to be exact
        assert {each.code for each in verdicts.refusals} == {Code.OUT_OF_RANGE}
    else:
        first, second = verdicts.arrivals
        assert first.body == second.body


def test_an_event_made_here_gets_its_id_the_same_way() -> None:
    (sent,) = batch(wire("progress", step=3)).arrivals
    built = arrival(0, sent.job, event(Progress, id="", step=3))

    assert built == sent
