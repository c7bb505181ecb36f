"""Spans to events. An event's id is its span's, with a word for what the event says of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count

from ett_service.core.intervals import rfc3339
from ett_service.core.words import SLURM_OUTCOMES, Outcome, Phase
from ett_service.ingest.otlp.identity import (
    Members,
    attempt_facts,
    digest,
    identity,
    job_facts,
    names_more,
    number_of,
    text_of,
    value_of,
    word_of,
)
from ett_service.ingest.otlp.mapping import (
    ATTRIBUTES,
    BUCKETS,
    CYCLE_OUTCOMES,
    Fact,
    Meaning,
    as_word,
    meaning_of,
)
from ett_service.ingest.otlp.spans import ResourceSpans, Span, SpanAttributes
from ett_service.ingest.wire import MAX_INTEGER

BEGIN, END = "-begin", "-end"
"""What an id ends with if its event is one edge of a span; without, it is the whole span."""


#: What a span says has its instants, and one often begins where another ended.
_written = lru_cache(maxsize=256)(rfc3339)


@dataclass(slots=True)
class Speaker:
    """Who says some of the events: a process, as one attempt."""

    members: Members  #: of the events that it says
    resource: SpanAttributes
    events: list[int] = field(default_factory=list)  #: by their places


@dataclass(slots=True)
class Conversion:
    """The events of spans in their order, and who says them."""

    events: list[Members] = field(default_factory=list)
    spans: list[int] = field(default_factory=list)  #: of each event, the place of its span
    speakers: list[Speaker] = field(default_factory=list)
    nameless: int = 0  #: spans that name no job
    unmapped: int = 0  #: spans that are stages because no row of the mapping names them


def convert(groups: Iterable[ResourceSpans]) -> Conversion:
    """Return the events of all spans that name a job."""
    conversion = Conversion()
    places = count()
    for group in groups:
        speakers: dict[tuple[tuple[str, object], ...], Speaker] = {}
        own = identity({}, group.resource)
        for span, place in zip(group.spans, places, strict=False):
            more = names_more(span.attributes)
            members = identity(span.attributes, group.resource) if more else own
            if members is None:
                conversion.nameless += 1
                continue
            key = tuple(members.items()) if more else ()
            if key not in speakers:
                speakers[key] = Speaker(members, group.resource)
            _add(conversion, span, place, speakers[key])
        conversion.speakers += speakers.values()
    return conversion


def _add(conversion: Conversion, span: Span, place: int, speaker: Speaker) -> None:
    meaning = _meaning(span)
    conversion.unmapped += not meaning.mapped
    events, members = conversion.events, speaker.members
    for event in _events(span, meaning):
        event.update(members)
        speaker.events.append(len(events))
        events.append(event)
        conversion.spans.append(place)


#: SpanAttributes by which a span says what it is, rather than its name.
_MEANING_ATTRIBUTES = frozenset(
    name for member in ("phase", "stage", "bucket") for name in ATTRIBUTES[member]
)


def _meaning(span: Span) -> Meaning:
    """Return what *span* is: what it says itself goes before its name."""
    named = meaning_of(span.name)
    attributes = span.attributes
    if _MEANING_ATTRIBUTES.isdisjoint(attributes):
        return named
    stage = word_of("stage", attributes)
    if (phase := value_of("phase", attributes)) is not None:
        # The wire refuses a phase that does not exist.
        return Meaning(phase, stage, owns=stage is None, facts=(Fact.STEP,))  # type: ignore[arg-type]
    if stage is not None:
        return Meaning(named.phase or Phase.TRAIN_LOOP, stage, facts=named.facts or (Fact.STEP,))
    bucket = BUCKETS.get(str(value_of("bucket", attributes)))
    if bucket is not None and named.phase in (Phase.TRAIN_LOOP, bucket):
        return Meaning(bucket, named.stage or as_word(span.name), owns=True)
    return named


#: SpanAttributes that change what becomes of a span; most have none of them.
_RARE = frozenset(
    name
    for member in ("truncated", "skipped", "outcome", "cycle_outcome", "slurm_state")
    for name in ATTRIBUTES[member]
)


def _events(span: Span, meaning: Meaning) -> Iterator[Members]:
    end = span.end
    is_usual = _RARE.isdisjoint(span.attributes)
    if not is_usual and value_of("truncated", span.attributes) is True:
        end = None
    if meaning.owns:
        yield _timed(span, end, "phase", {"phase": meaning.phase})
    if meaning.stage is not None:
        yield _timed(span, end, "stage", {"phase": meaning.phase, "stage": meaning.stage})
    if Fact.BEGINS in meaning.facts:
        yield _event("attempt_started", span, "begins", span.start)
    if end is not None:
        yield from _facts_at_end(span, meaning, end)
        if not is_usual or meaning.is_last:
            yield from _ending(span, meaning, end)
    elif span.end is not None:
        # It was cut when its process ended: until then the process lived.
        yield _event("heartbeat", span, "alive", span.end)


def _timed(span: Span, end: int | None, word: str, members: Members) -> Members:
    if end is None:
        return {**_event("phase_started", span, word + BEGIN, span.start), **members}
    start = _written(span.start)
    return {
        "type": "span",
        "id": f"{span.key}:{word}",
        "at": _written(end),
        "start": start,
    } | members


def _event(kind: str, span: Span, word: str, at: int) -> Members:
    return {"type": kind, "id": f"{span.key}:{word}", "at": _written(at)}


_STEPPED = {
    Fact.STEP: ("progress", "step"),
    Fact.SAVED: ("checkpoint_saved", "saved"),
    Fact.RESTORED: ("checkpoint_restored", "restored"),
}


def _facts_at_end(span: Span, meaning: Meaning, end: int) -> Iterator[Members]:
    for fact in meaning.facts:
        stepped = _STEPPED.get(fact)
        if stepped is not None:
            step = number_of("step", span.attributes, most=MAX_INTEGER)
            if step is not None and value_of("skipped", span.attributes) is not True:
                event = _event(stepped[0], span, stepped[1], end)
                event["step"] = step
                yield event
        elif fact is Fact.ALIVE:
            yield _event("heartbeat", span, "alive", end)


def _ending(span: Span, meaning: Meaning, end: int) -> Iterator[Members]:
    outcome = _outcome(span, meaning)
    if outcome is not None:
        yield {**_event("attempt_ended", span, "ended", end), "outcome": outcome, **_evidence(span)}


def _outcome(span: Span, meaning: Meaning) -> str | None:
    if (outcome := value_of("outcome", span.attributes)) is not None:
        return str(outcome)
    if Fact.FAILS in meaning.facts:
        return Outcome.FAILED
    if Fact.RETURNS in meaning.facts:
        return Outcome.FAILED if span.failed else Outcome.COMPLETED
    return _outcome_by_words(span.attributes) if Fact.ENDS in meaning.facts else None


def _outcome_by_words(attributes: SpanAttributes) -> Outcome | None:
    if (outcome := value_of("cycle_outcome", attributes)) is not None:
        return CYCLE_OUTCOMES.get(str(outcome))
    state, *_ = [*str(value_of("slurm_state", attributes) or "").split(), ""]
    return SLURM_OUTCOMES.get(state)


def _evidence(span: Span) -> Members:
    exception: SpanAttributes = span.exception or {}
    evidence: Members = {
        "exception": word_of("exception", exception),
        "message": text_of("message", exception) or text_of("worker_state", span.attributes),
        "scheduler_state": word_of("slurm_state", span.attributes),
    }
    return {member: text for member, text in evidence.items() if text is not None}


def process_facts(speaker: Speaker, first: str, first_begun: str | None) -> Iterator[Members]:
    """Return what *speaker*'s process says of its job and its attempt.

    It is dated by the *first* instant of its events, and by the first outside ``queued``. The ids
    are of what is said and of whom, so that it is stored once however often it is said.
    """
    job: Members = {
        name: speaker.members[name] for name in ("job", "launch") if name in speaker.members
    }
    facts = job_facts(speaker.resource)
    yield {"type": "job", "id": f"otel:{digest(job, facts)}", "at": first, **job, **facts}
    names = ("job", "launch", "attempt", "cycle")
    attempt = {name: speaker.members[name] for name in names if name in speaker.members}
    facts = attempt_facts(speaker.resource)
    if first_begun is not None and facts:
        event_id = f"otel:{digest(attempt, facts)}"
        yield {"type": "attempt_started", "id": event_id, "at": first_begun, **attempt, **facts}
