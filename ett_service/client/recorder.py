"""What one process says: every event is in the spool before the call that made it returns."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from threading import get_ident

from ett_service.client.clock import CLOCK_ID, MICRO, mono_us
from ett_service.client.guard import failed
from ett_service.client.identity import Identity
from ett_service.client.lines import Lines
from ett_service.client.members import fit, fitted
from ett_service.client.sending.spool import Spool

STEP_EVERY_NS = 10_000_000_000
"""Steps are counted in memory and written this often."""

_EDGES = frozenset({"phase_started", "phase_ended", "span"})

HEARTBEAT_EVERY_NS = 30_000_000_000

Step = tuple[int, int | None, int | None, int | None, float | None]
"""Nanoseconds of the clock, then step, samples, tokens and flops."""

NEVER = 1 << 63

Begun = tuple[int, int]
"""Nanoseconds of the clock, and those counted by then: a part is not counted beside the whole."""


class Steps:
    """The latest step: what ``ett.step`` touches, and nothing else."""

    __slots__ = ("due_ns", "last", "source", "sourced", "written")

    def __init__(self, due_ns: int = NEVER) -> None:
        self.due_ns = due_ns  #: from then on a step is written at once
        self.last: Step | None = None
        self.sourced: Step | None = None  #: the latest that a framework or a hook reported
        self.source: str | None = None  #: which of them
        self.written: Step | None = None


def edge_writer(
    lines: Lines,
    spool: Spool,
    steps: Steps,
    write_steps: Callable[[], None],
    template: bytes,
) -> Callable[[], int]:
    """Return the hot path: one reading of the clock, one line, one ``os.write``.

    It writes a begin or an end that happens now, and returns its instant in microseconds of the
    clock. All that it needs lies in names of its own; looking it up would cost as much as the rest.
    """
    remember = spool.remember
    before, _, after = template.rpartition(b"%b")
    second = (0, b"")  # where it began, and the template with its text filled in

    def edge(  # arguments that nobody gives: names of its own are the cheapest to read
        steps: Steps = steps,
        spool: Spool = spool,
        numbers: Iterator[int] = lines.numbers,
        read: Callable[[int], int] = time.clock_gettime_ns,
        clock: int = CLOCK_ID,
        write: Callable[[int, bytes], int] = os.write,
    ) -> int:
        nonlocal second
        if steps.last is not steps.written:
            write_steps()
        mono = read(clock) // 1000
        start, dated = second
        micros = mono - start
        if not 0 <= micros < MICRO:  # another thread has turned the second, or it is over
            text, micros = lines.second(mono)
            dated = before + text + after
            second = (mono - micros, dated)
        seq = next(numbers)
        line = dated % (seq, seq, mono, micros)
        try:
            if write(spool.fd, line) == len(line):
                return mono
        except OSError:
            pass
        remember(line)
        return mono

    return edge


class LoopState:
    """How far the training loop of this process has come, in microseconds of the clock."""

    __slots__ = (
        "announced",
        "batch_layer",
        "entered_at",
        "first_compile_at",
        "last_compile_at",
        "layer",
        "left_at",
        "source",
        "stepped",
        "watched",
    )

    def __init__(self) -> None:
        self.entered_at: int | None = None
        self.left_at: int | None = None
        self.layer = 0  #: the highest layer that has reported a loop
        self.source: str | None = None  #: who reports the loop that is open
        self.announced = False  #: its begin has been written
        self.stepped = False  #: this process has said a step
        self.batch_layer = 0  #: the highest layer that has reported a first batch
        self.watched = False  #: compiles are reported by a hook
        self.first_compile_at: int | None = None  #: end of the first compile in the loop
        self.last_compile_at: int | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a loop was opened or a step reported: then it is known which thread trains."""
        return self.stepped or self.entered_at is not None or self.left_at is not None

    def compiled(self, ended_at: int) -> None:
        """Remember a compile that ended."""
        self.last_compile_at = ended_at
        if self.entered_at is not None and self.first_compile_at is None:
            self.first_compile_at = ended_at


class Cost:
    """What recording takes of the training thread, in nanoseconds, where timing it costs less.

    Timed are ``ett.init``, the events that calls write but for the begin and end of phases, and
    what the hooks into PyTorch do. Phases and ``ett.step`` cost about as much as timing them would.
    What other threads do is not counted.
    """

    __slots__ = ("ns", "thread")

    def __init__(self) -> None:
        self.ns = 0
        self.thread = 0  #: the one that trains; 0 while nobody trains here

    def count_here(self) -> None:
        """Take this thread for the one that trains, and count what it does from now on."""
        self.thread = get_ident()

    @property
    def is_counted(self) -> bool:
        """Whether a thread trains here."""
        return self.thread != 0

    def begin(self) -> Begun:
        """Begin to time something."""
        return time.clock_gettime_ns(CLOCK_ID), self.ns

    def end(self, begun: Begun) -> None:
        """Count what was begun, with all that it called."""
        if get_ident() == self.thread:
            began_ns, before = begun
            self.ns = before + time.clock_gettime_ns(CLOCK_ID) - began_ns


class Recorder:
    """Turns calls into lines of the spool."""

    def __init__(self, identity: Identity, lines: Lines, spool: Spool) -> None:
        self.identity = identity
        self.lines = lines
        self.spool = spool
        self.cost = Cost()
        self.steps = Steps(due_ns=0)
        self.first_step: Step | None = None
        self.loop = LoopState()
        self.launching = False  #: launcher_init was begun for the trainer and is still open
        self.saving: object = None  #: the checkpoint whose block is open
        self.saved_step: int | None = None  #: the step of the last file that was one
        self.restored: int | None = None  #: the step after which training goes on
        self.restored_by = 0  #: the highest layer that has reported it
        self.loaded = False  #: a hook has seen a checkpoint being read
        self.at_end: list[Callable[[str], None]] = []  #: called with the outcome, before it is said
        self.saved_by = 0  #: the highest layer that has reported a checkpoint
        self.running_totals: dict[str, float] = {}  #: attributes of every progress event
        self.attempt_attributes: Mapping[
            str, object
        ] = {}  #: attributes that the attempt has been given
        self.news: Mapping[str, object] | None = None  #: for the next sign of life
        self.over = False  #: an end of the attempt has been said
        self._beat_ns = time.clock_gettime_ns(CLOCK_ID)
        self._writing = threading.RLock()  # a signal's handler may record, too

    def edge(
        self, kind: str, phase: str, stage: str | None, source: str | None = None
    ) -> Callable[[], int]:
        """Return what writes this begin or end when it is called."""
        members: dict[str, object] = {"type": kind, "phase": phase}
        if stage:
            members["stage"] = stage
        if source:
            members["attributes"] = {"source": source}
        template = self.lines.template(**members)
        return edge_writer(self.lines, self.spool, self.steps, self.write_steps, template)

    def edge_at(
        self,
        kind: str,
        phase: str,
        stage: str | None = None,
        mono: int | None = None,
        attributes: Mapping[str, object] | None = None,
    ) -> None:
        """Write a begin or an end at an instant of the clock, in microseconds."""
        members = {"type": kind, "phase": phase, "stage": stage, "attributes": attributes}
        self.write(members, mono)

    def span(
        self,
        phase: str,
        stage: str | None,
        start: int,
        end: int,
        attributes: Mapping[str, object] | None = None,
    ) -> None:
        """Write a phase or stage that is over, between two instants of the clock."""
        members = {
            "type": "span",
            "phase": phase,
            "stage": stage,
            "start": self.lines.at(start),
            "attributes": attributes,
        }
        self.write(members, end)

    def write(self, members: Mapping[str, object], mono: int | None = None) -> None:
        """Write any event. Raises ``ValueError`` where what it must say cannot be said."""
        begun = self.cost.begin()
        try:
            self.write_steps()
            is_edge = members["type"] in _EDGES
            keep = self.spool.write if is_edge else self.spool.write_fact
            keep(self.lines.line(fitted(members), mono))
        finally:
            self.cost.end(begun)

    def write_steps(self) -> None:
        """Write the latest step now, if it is not yet written."""
        begun = self.cost.begin()
        if line := self._pending():
            self.spool.write_droppable(line)
        self.cost.end(begun)

    def write_due_step(self) -> None:
        """Write the latest step, and say when the next is due."""
        last = self.steps.last
        self.first_step = self.first_step or last
        self.write_steps()
        if last is not None:
            self.steps.due_ns = last[0] + STEP_EVERY_NS

    def tick(self) -> None:
        """Do what is due: a step that nobody followed up, a sign of life."""
        steps, now = self.steps, time.clock_gettime_ns(CLOCK_ID)
        if steps.last is not None and now - steps.last[0] >= STEP_EVERY_NS:
            self.write_steps()
        if now - self._beat_ns >= HEARTBEAT_EVERY_NS and not self.over:
            self._beat_ns = now
            news, self.news = self.news, None
            attributes = {**(news or {}), **self.totals()} or None
            beat = {"type": "heartbeat", "attributes": attributes}
            self.spool.write_droppable(self.lines.line(beat))

    def totals(self) -> dict[str, float]:
        """Return running totals of this process: every rank sends them with its signs of life.

        Where nobody trains there are none.
        """
        if not self.cost.is_counted:
            return {}
        totals = {**self.running_totals, "telemetry_seconds": self.cost.ns / 1e9}
        first, last = self.first_step, self.steps.last
        if first is not None and last is not None:
            before, after = fit("step", first[1]), fit("step", last[1])
            if before is not None and after is not None and after >= before:
                totals |= {"steps": after - before, "loop_seconds": (last[0] - first[0]) / 1e9}
        return totals

    def end_launch(self, mono: int | None = None) -> None:
        """Close the launcher_init that was begun for the trainer, if it is open."""
        if self.launching:
            self.launching = False
            self.edge_at("phase_ended", "launcher_init", None, mono)

    def now(self) -> int:
        """Read the clock that instants are given on, in microseconds."""
        return mono_us()

    def _pending(self) -> bytes:
        """Return the line of the latest step, empty if it is written or not ours to tell."""
        steps = self.steps
        with self._writing:
            last = steps.last
            if last is None or last is steps.written:
                return b""
            steps.written = last
        if not self.identity.leads:
            return b""
        at_ns, step, samples, tokens, flops = last
        members = {"step": step, "samples": samples, "tokens": tokens, "flops": flops}
        attributes: dict[str, object] = dict(self.running_totals)
        if last is steps.sourced:
            attributes["source"] = steps.source
        extra = {"attributes": attributes} if attributes else {}
        try:
            return self.lines.line({"type": "progress", **fitted(members), **extra}, at_ns // 1000)
        except Exception as error:  # noqa: BLE001 -- numbers of others raise what they like
            failed(error)  # a step that is no number must not cost the edge that follows it
            return b""
