"""What one life of a Slurm job says on the wire.

The names are those of ``examples/slurm``, so that the scripts, a trainer and Slurm's accounting
tell of one job. Ids follow from what is said: a record that grows, from queued to running to ended,
says what it said before and more.

Slurm keeps a record for each time that it requeued a job, under the same id. Their place is the
number that the job itself sees as ``SLURM_RESTART_COUNT``.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from ett_service.core.words import SLURM_OUTCOMES, Outcome
from ett_service.importers.importer import Fact, ImportedRun, clean
from ett_service.importers.slurm.clock import written
from ett_service.importers.slurm.record import Record, accelerators_of, hosts_of
from ett_service.ingest.members import CLUSTER_OF_LAUNCH

_RESIZED = "RESIZING"

ALIVE_EVERY_S: Final = 300
"""A life that goes on is told of when it is a multiple of this old; well below ``lost_after``."""

_LAST_SIGNAL: Final = 127
_UNNAMED: Final = re.compile(r"[^A-Za-z0-9 ._:@+=,()\ufffd-]")
_NO_REASON: Final = frozenset({"", "None", "Unknown"})
_DEFERRING: Final = frozenset(
    {"Dependency", "DependencyNeverSatisfied", "BeginTime", "JobArrayTaskLimit", "JobHeldUser",
     "JobHeldAdmin"}
)  # fmt: skip
"""Reasons for which a job is not eligible: nobody looks for nodes for it."""

_Members = dict[str, Any]
_QUEUED: Final[_Members] = {"phase": "queued"}

NAMES: Final = ("name", "id", "cluster", "user", "account", "partition")
DEFAULT_NAME: Final = "{name}"


class Numbered(NamedTuple):
    """A record and the number of its attempt."""

    attempt: int
    record: Record


def numbered(records: Iterable[Record]) -> Iterator[Numbered]:
    """Number the records of one launch, of which several may tell of one life."""
    components: dict[int, list[Record]] = {}
    for record in sorted(records, key=_order):
        components.setdefault(record.component, []).append(record)
    lives = [list(_lives(component)) for _, component in sorted(components.items())]
    first, *others = lives
    for attempt, record in enumerate(first):
        beside = [other[attempt] for other in others if attempt < len(other)]
        whole = _together([record, *beside]) if beside else record
        yield Numbered(int(whole.restarts) if whole.restarts.isdecimal() else attempt, whole)


def _order(record: Record) -> tuple[int, int, int, str]:
    """Order lives, and of one life what was printed later last."""
    begun, ended = record.start or 0, record.end or 0
    return (record.since, begun, ended if record.word in SLURM_OUTCOMES else 0, record.state)


def _lives(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the latest record of each life; one that was resized ends in its next record."""
    resized: Record | None = None
    for _, copies in groupby(records, key=lambda record: record.restarts or record.since):
        *_, record = copies
        if resized is not None:
            record = record._replace(
                submit=resized.submit, eligible=resized.eligible, start=resized.start
            )
        resized = record if record.word == _RESIZED else None
        if resized is None:
            yield record
    if resized is not None:
        yield resized


def _together(components: list[Record]) -> Record:
    """Join the components of a heterogeneous job, which begin and end together."""
    first = components[0]
    starts = [each.start for each in components if each.start is not None]
    ends = [each.end for each in components if each.end is not None]
    worst = max(components, key=lambda each: each.word not in ("COMPLETED", first.word))
    counts = [each.gpus for each in components]
    gpus = f"gres/gpu={sum(count or 0 for count in counts)}" if any(counts) else ""
    models = [f"gres/gpu:{each.hardware}=0" for each in components if each.hardware]
    return first._replace(
        start=min(starts, default=None),
        end=max(ends) if len(ends) == len(components) else None,
        state=worst.state if worst.word in SLURM_OUTCOMES else first.state,
        exit_code=worst.exit_code,
        nodes=str(sum(each.hosts or 0 for each in components) or ""),
        tres=",".join([gpus, *models]),
    )


@dataclass(frozen=True, slots=True)
class Naming:
    """How jobs are named; the fields of the template are ``NAMES``."""

    template: str = DEFAULT_NAME
    job: str | None = None  #: the name of all of them

    def job_of(self, record: Record) -> str:
        """Return the name of the job that a record is a life of."""
        if self.job is not None:
            return self.job
        plain = _plain_name(record)
        if self.template == DEFAULT_NAME:
            return plain
        values = (plain, record.launch, record.cluster, record.user, record.account)
        fields = dict(zip(NAMES, (*values, record.partition), strict=True))
        return _quoted(self.template.format_map(fields)) or plain


def _plain_name(record: Record) -> str:
    """Return the name that ``settings.sh`` gives it: its own, of an array with the task."""
    task = record.task
    name = _quoted(f"{record.name}-{task}" if task else record.name) if record.name else ""
    return f"slurm-{record.launch}" if name in ("", ".", "..") else name


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    """Replace what the scripts replace, byte by byte."""
    text = _UNNAMED.sub(lambda match: "_" * len(match[0].encode("utf-8", "replace")), text)
    return text.replace("\ufffd", "_")[:200]


def _clean(text: str) -> str:
    """Make a text fit to send: printable, and as the service writes it."""
    return clean(text) if text.isascii() and text.isprintable() else _mended(text)


@lru_cache(maxsize=4096)
def _mended(text: str) -> str:
    text = unicodedata.normalize("NFC", clean(text.replace("\ufffd", "?")))
    return "".join(each if each.isprintable() else "?" for each in text)


class Taker(NamedTuple):
    """Who got the place of a life that was preempted."""

    launch: str
    job: str  #: the name of its job


def imported(
    path: Path,
    record: Record,
    attempt: int,
    job: str,
    *,
    is_alone: bool = False,
    taker: Taker | None = None,
) -> ImportedRun:
    """Return what a life says as the *attempt* of its launch.

    A job of which nothing else has begun or waits *is_alone*: it is over if it is cancelled in the
    queue. Of another, that says nothing. *taker* got its place.
    """
    teller = _Teller(record, attempt, job, taker)
    events = teller.queue() if record.submit else []
    if record.has_begun:
        events += teller.life()
    elif is_alone:
        events += teller.given_up()
    return ImportedRun(path, job, tuple([Fact(event, record.line) for event in events]))


class _Teller:
    """Writes the events of one life."""

    def __init__(self, record: Record, attempt: int, job: str, taker: Taker | None) -> None:
        self._record = record
        self._taker = taker
        launch = _clean(record.launch)
        identity = f"{record.cluster}\0{job}\0{launch}\0{attempt}".encode("utf-8", "replace")
        self._id = f"sacct-{blake2b(identity, digest_size=10).hexdigest()}"
        self._whose: _Members = {"job": job, "launch": launch, "attempt": attempt}

    def _event(self, name: str, kind: str, at: int, members: _Members) -> _Members:
        identity = f"{self._id}-{name}"
        return {"id": identity, "type": kind, **self._whose, "at": written(at), **members}

    def queue(self) -> list[_Members]:
        """Return how it waited: for what it depends on, and then for nodes."""
        record = self._record
        submit, over = record.submit, record.start if record.has_begun else record.end
        eligible = record.eligible if record.eligible is not None else over
        if submit is None or eligible is None:
            return []
        if over is not None:
            eligible = min(eligible, over)
        events = [self._job(submit)]
        reason = record.reason
        if submit < eligible:
            stage = reason if reason in _DEFERRING else "deferred"
            events.append(self._stage("deferred", stage, submit, eligible))
        events.append(self._event(f"queued-{eligible}", "phase_started", eligible, _QUEUED))
        if over is not None:
            events.append(self._event(f"placed-{over}", "phase_ended", over, _QUEUED))
            if eligible < over and reason not in _NO_REASON and reason not in _DEFERRING:
                events.append(self._stage("waited", reason, eligible, over))
        return events

    def _stage(self, name: str, stage: str, start: int, end: int) -> _Members:
        stage = _clean(stage)
        name = f"{name}-{end}-{_mark(f'{start} {stage}')}"
        return self._event(name, "span", end, {**_QUEUED, "stage": stage, "start": written(start)})

    def life(self) -> list[_Members]:
        """Return that it began, and how it ended or until when it was alive."""
        record, begun = self._record, self._record.start
        assert begun is not None
        events = [] if record.submit else [self._job(begun)]
        size, mark = _size(record.nodes, record.tres)
        events.append(self._event(f"started-{begun}-{mark}", "attempt_started", begun, size))
        if record.end is None:
            lived = (record.elapsed or 0) // ALIVE_EVERY_S * ALIVE_EVERY_S
            if lived:
                alive = begun + lived
                events.append(self._event(f"alive-{alive}", "heartbeat", alive, {}))
        elif record.word in SLURM_OUTCOMES:
            events += self._end(SLURM_OUTCOMES[record.word], record.end)
        return events

    def _end(self, outcome: Outcome, end: int) -> list[_Members]:
        how, mark = _ending(self._record.state, self._record.exit_code, outcome)
        if self._taker is not None:
            how, mark = _for(self._taker, how), f"-{mark}"  # of two ids the one that sorts first
        events = [self._event(f"ended-{end}-{mark}", "attempt_ended", end, how)]
        if outcome is Outcome.COMPLETED:
            events.append(self._event(f"over-{end}-{mark}", "job_ended", end, how))
        return events

    def given_up(self) -> list[_Members]:
        """Return that the job ended in the queue."""
        record = self._record
        if record.end is None or record.word not in SLURM_OUTCOMES:
            return []
        how, mark = _ending(record.state, record.exit_code, Outcome.CANCELLED)
        return [self._event(f"given-up-{record.end}-{mark}", "job_ended", record.end, how)]

    def _job(self, at: int) -> _Members:
        # The name, and where the job was and ran, are the first members but ids and instants.
        facts, mark = _facts(self._record[3:9], self._record.tres)
        if self._record.submit and not self._whose["attempt"]:
            facts = {**facts, "submitted_at": written(self._record.submit)}
        return self._event(f"facts-{at}-{mark}", "job", at, facts)


@lru_cache(maxsize=4096)
def _size(nodes: str, tres: str) -> tuple[_Members, str]:
    """Return what an allocation holds, and a mark of it."""
    hosts, (gpus, _) = hosts_of(nodes), accelerators_of(tres)
    return _stated({"hosts": hosts, "gpus": gpus}), f"{gpus or ''}-{hosts or ''}"


@lru_cache(maxsize=1024)
def _ending(state: str, exit_code: str, outcome: Outcome) -> tuple[_Members, str]:
    """Return how something ended, and a mark of it."""
    word, _, by = state.partition(" by ")
    how: _Members = {"outcome": outcome.value, "scheduler_state": _clean(word.rstrip("+"))}
    if by:
        how["reason"] = _clean(f"cancelled by {by}")
    if outcome is not Outcome.FAILED or exit_code != "0:0":
        how |= _exit(exit_code)
    return how, _mark(f"{state} {exit_code}")


def _for(taker: Taker, how: _Members) -> _Members:
    return {**how, "preempted_by": taker.job, "reason": f"preempted for job {taker.launch}"}


@lru_cache(maxsize=1 << 14)
def _facts(who: Sequence[str], tres: str) -> tuple[_Members, str]:
    """Return the facts about a job, and a mark of them."""
    cluster, name, user, account, partition, qos = (_clean(text) for text in who)
    gpus, hardware = accelerators_of(tres)
    facts = {"name": name, "owner": user, "team": account, "cluster": cluster}
    labels = _stated({"partition": partition, "qos": qos})
    attributes = _stated({CLUSTER_OF_LAUNCH: cluster})
    size = {"hardware": _clean(hardware), "gpus": gpus, "labels": labels, "attributes": attributes}
    stated = _stated({**facts, **size})
    return stated, _mark("|".join([*who, tres]))


def _mark(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'replace')):08x}"


def _stated(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}


def _exit(text: str) -> dict[str, int]:
    code, _, signal = text.partition(":")
    if not (code.isascii() and code.isdigit()):
        return {}
    ended = {"exit_code": min(int(code), 255)}
    if signal.isascii() and signal.isdigit() and 0 < int(signal) <= _LAST_SIGNAL:
        ended["signal"] = int(signal)
    return ended
