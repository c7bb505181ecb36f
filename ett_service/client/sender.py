"""The background thread: it sends the spool, keeps signs of life coming and adopts orphans."""

import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from ett_service.client import guard
from ett_service.client.recorder import Recorder
from ett_service.client.sending.backlog import Backlog, adopted, spools
from ett_service.client.sending.courier import Courier, Tally
from ett_service.client.sending.delivery import (
    BLOCKED,
    MAX_EVENTS,
    Fate,
    Target,
    Verdict,
)
from ett_service.client.sending.notices import Closing, goes_on, notice
from ett_service.client.sending.pace import PAUSE_SECONDS, Pace
from ett_service.client.sending.seals import bare
from ett_service.client.sending.spool import OWNER
from ett_service.client.sending.sweeping import KEPT_SECONDS, sweep
from ett_service.client.starting.opening import begins_first

TICK_SECONDS = 1.0
_ADOPT_SECONDS = 30.0
_FAILURES_NOTICED = 2  #: in a row; a server that restarts is no news
_HOLD_SECONDS = 10.0
_END_SECONDS = 0.5
_SWEEP_SECONDS = 3600.0
_REMEDIES = {
    Fate.FORBIDDEN: "; set ETT_API_KEY to a key with the scope `write`: ett keys create",
    Fate.ASTRAY: "; check ETT_URL",
}


class Sender:
    """Sends what one recorder writes. Without a target it only keeps the signs of life coming."""

    def __init__(
        self,
        recorder: Recorder,
        target: Target | None,
        chores: Sequence[Callable[[Recorder], None]] = (),
        timeout: float = 10.0,
    ) -> None:
        self._recorder = recorder
        self._target = target
        self._chores = chores
        self._timeout = timeout
        self._pace = Pace()
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._asked = 0
        self._served = 0
        self._held_bytes: int | None = None
        self._held_until = 0.0
        self._stopping = False
        self._adopt_at = 0.0
        self._sweep_at = 0.0
        self._given_up: Counter[str] = Counter()  #: by reason, to be told with the next batch
        self._backlog = Backlog(recorder.spool.directory, alive=True)
        self._courier: Courier | None = None
        self._carried_over = Tally()  #: of what dead processes left
        self._reported: Counter[str] = Counter()  #: of what the spool has dropped
        self._is_waiting = False  #: what is left is not sent at once
        self._taken: list[bytes] = []  #: out of its memory, and under way
        self._trouble = ""
        self._is_noticed = False
        self._has_begun = False  #: the server has something of this process
        self._thread = threading.Thread(target=self._run, name="ett-sender", daemon=True)

    def start(self) -> None:
        """Start the thread; where the system gives none, the spool waits for another process."""
        try:
            self._thread.start()
        except RuntimeError as error:
            guard.failed(error)

    def closing(self) -> Closing:
        """Return what became of the events; to be asked once, when no more will be written."""
        recorder, spool = self._recorder, self._recorder.spool
        tally = self._own_tally()
        recorded = next(recorder.lines.numbers) - 1
        lost = len(spool.ring) + len(self._taken) + sum(spool.dropped.values())
        unsent = max(recorded - tally.settled - lost, 0) if self._unsent_bytes() else 0
        directory = spool.directory.parent
        job = recorder.identity.job
        return Closing(job, self._target, directory, tally, unsent, self._trouble, lost)

    def sent(self) -> Tally:
        """Return what was sent, of dead processes too, as far as no spool is left to tell it."""
        is_left = (self._recorder.spool.directory / OWNER).exists()
        return self._carried_over + (Tally() if is_left else self._own_tally())

    def _own_tally(self) -> Tally:
        return Tally() if self._courier is None else self._courier.tally

    def flush(self, timeout: float) -> bool:
        """Try now, whatever was to be waited for; True if the server has everything.

        Returns after *timeout* seconds at the latest.
        """
        if self._target is None or not self._thread.is_alive():
            return False
        deadline = time.monotonic() + timeout
        self._pace.hurry()
        while True:
            self._asked = number = self._asked + 1
            self._wake.set()
            while self._served < number and time.monotonic() < deadline:
                self._idle.wait(0.02)
            if self._served >= number and not self._unsent():
                return True
            if not time.monotonic() < deadline:  # also where that is no number
                return False
            time.sleep(PAUSE_SECONDS)  # a segment that was just closed is left to settle

    def hold(self) -> None:
        """Send nothing for ten seconds."""
        self._held_bytes = sys.maxsize
        self._held_until = time.monotonic() + _HOLD_SECONDS

    def hold_this(self) -> None:
        """Send nothing, for as long at most, until more is recorded than now."""
        self._held_bytes = self._unsent_bytes()

    @property
    def is_held(self) -> bool:
        """Whether what is recorded is still kept back."""
        if self._held_bytes is None:
            return False
        if self._unsent_bytes() > self._held_bytes or time.monotonic() >= self._held_until:
            self._held_bytes = None
        return self._held_bytes is not None

    def withdraw(self) -> None:
        """End the thread and forget what was recorded."""
        self._target = None
        self._end(_END_SECONDS)
        with self._recorder.spool.closing():
            self._backlog.discard()

    def stop(self, timeout: float) -> None:
        """Flush, end the thread, and remove the spool if the server has all of it.

        Returns after *timeout* seconds at the latest: a thread that waits for a server is left.
        """
        deadline = time.monotonic() + timeout
        done = False
        try:
            done = self.flush(timeout)
        finally:
            self._end(deadline - time.monotonic())
            with self._recorder.spool.closing():
                if done and not self._unsent():
                    with suppress(OSError):  # where a disk failed, there may be none
                        self._backlog.discard()

    def _end(self, seconds: float) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(min(max(seconds, 0.0), _END_SECONDS))

    def _run(self) -> None:
        last = False
        while not last:
            last = self._stopping
            number = self._asked
            self._chore(self._recorder.tick)
            self._chore(self._tend)
            for chore in self._chores:
                self._chore(partial(chore, self._recorder))
            self._chore(self._send)
            self._chore(self._sweep)
            self._is_waiting = self._target is None or self._pace.not_before > time.monotonic()
            if last:
                self._chore(self._tend)
            self._served = number
            self._idle.set()
            if not last:
                self._wake.wait(TICK_SECONDS)
                self._wake.clear()
                self._idle.clear()

    def _chore(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 -- the thread outlives whatever happens in it
            if not self._recorder.spool.is_closed:  # else it came too late: others own the folder
                guard.failed(error)

    def _send(self) -> None:
        if self.is_held:
            return
        until = time.monotonic() + TICK_SECONDS  # a sign of life may be due by then
        while self._target is not None and self._pace.not_before <= time.monotonic() < until:
            verdict = self._send_one(self._target)
            if verdict is None:
                break
            self._heed(verdict, self._unsent_bytes())
            self._note_begin(verdict)
            pause = self._pace.not_before - time.monotonic()
            if 0.0 < pause <= PAUSE_SECONDS:
                time.sleep(pause)
        if self._target is not None and self._pace.not_before <= time.monotonic() >= self._adopt_at:
            self._adopt_one(self._target)

    def _send_one(self, target: Target) -> Verdict | None:
        courier = self._courier or self._new_courier(target)
        courier.dropped.update(self._take_drops())
        verdict = courier.carry_one(self._pace.events(time.monotonic()))
        if verdict is None and self._recorder.spool.ring:
            return self._send_ring(courier)
        return verdict

    def _send_ring(self, courier: Courier) -> Verdict:
        """Send what the disk would not take."""
        spool = self._recorder.spool
        self._taken = spool.take(MAX_EVENTS)
        verdict = courier.carry(tuple(map(bare, self._taken)))
        if verdict.fate is not Fate.SETTLED:
            spool.put_back(self._taken)
        self._taken = []
        return verdict

    def _new_courier(self, target: Target) -> Courier:
        recorder = self._recorder
        self._courier = Courier(
            target,
            self._backlog,
            self._timeout,
            sent_at=lambda: recorder.lines.at(recorder.now()),
        )
        return self._courier

    def _take_drops(self) -> dict[str, int]:
        """Take what was dropped since the last time, by reason."""
        dropped = Counter(self._recorder.spool.dropped)
        taken = dict(dropped - self._reported + self._given_up)
        self._reported = dropped
        self._given_up.clear()
        errors = sum(guard.errors.values())
        guard.errors.clear()
        return taken | ({"client_error": errors} if errors else {})

    def _heed(self, verdict: Verdict, unsent: int) -> None:
        self._pace.heed(verdict, time.monotonic(), unsent)
        self._trouble = verdict.reason if verdict.fate is not Fate.SETTLED else ""
        if verdict.fate in BLOCKED or self._pace.tries >= _FAILURES_NOTICED:
            self._notify(verdict)
        elif verdict.refused:
            guard.warn_once(
                f"the server refused {len(verdict.refused)} events, the first for: "
                f"{verdict.refused[0][1]}; they are kept in {self._recorder.spool.directory}"
            )

    def _note_begin(self, verdict: Verdict) -> None:
        """Say once a launch and machine that it goes on with a job that was finished."""
        identity, directory = self._recorder.identity, self._recorder.spool.directory.parent
        if verdict.fate is not Fate.SETTLED or self._has_begun or not identity.leads:
            return
        self._has_begun = True
        # Whoever comes later, as its launcher, finds finished what a short trainer has begun.
        if begins_first(directory, f"launch-{identity.launch}-{identity.attempt}") and (
            identity.job in verdict.finished
        ):
            notice(goes_on(identity.job, verdict.finished[identity.job]))

    def _notify(self, verdict: Verdict) -> None:
        """Say once a launch and machine that events do not arrive."""
        identity, directory = self._recorder.identity, self._recorder.spool.directory.parent
        if self._is_noticed or not identity.leads:
            return
        self._is_noticed = True
        has_disk = not self._recorder.spool.ring
        # A disk that takes nothing takes no mark either that this was said.
        if not has_disk or begins_first(directory, f"notice-{identity.launch}-{identity.attempt}"):
            where = f"in {directory}" if has_disk else "in memory"
            remedy = _REMEDIES.get(verdict.fate, " and sent when it answers; is ETT_URL right?")
            notice(f"{verdict.reason}; training goes on, events are kept {where}{remedy}")

    def _sweep(self) -> None:
        """Give up what has waited for too long, here and of dead processes; look once an hour."""
        if self._target is None or time.monotonic() < self._sweep_at:
            return
        self._sweep_at = time.monotonic() + _SWEEP_SECONDS
        spool, now_s = self._recorder.spool, time.time()
        given_up = sweep(spool.directory.parents[1], now_s)
        with suppress(OSError):
            given_up["spool_old"] += self._backlog.expire(now_s - KEPT_SECONDS)
        for reason, count in (+given_up).items():
            self._given_up[reason] += count
            guard.warn_once(f"{count} events that nobody has sent were given up", about=reason)

    def _adopt_one(self, target: Target) -> None:
        """Send of the spool of a dead process of the same job; without any, look again later.

        Every process looks once, the leading one every half minute.
        """
        own = self._recorder.spool.directory
        for directory in spools(own.parent):
            if directory == own:
                continue
            with adopted(directory) as backlog:
                if backlog is None:
                    continue
                courier = Courier(target, backlog, self._timeout)
                is_whole = self._carry_over(courier)
                tally = courier.tally
                if backlog.owner.get("launch") == self._recorder.identity.launch:
                    # Its spool counts them, with what its process had sent, until it is gone.
                    tally.accepted, tally.duplicate = (backlog.sent if is_whole else 0), 0
                self._carried_over += tally
                if is_whole:
                    backlog.discard()
                return
        again = _ADOPT_SECONDS if self._recorder.identity.leads else math.inf
        self._adopt_at = time.monotonic() + again

    def _carry_over(self, courier: Courier) -> bool:
        """Send what a dead process left, for a second at most; return whether that was all.

        What this process has to say, and its own end, do not wait for more than a batch of it.
        """
        until = time.monotonic() + TICK_SECONDS
        while time.monotonic() < until and not self._wake.is_set():
            verdict = courier.carry_one()
            if verdict is None:
                return True
            self._heed(verdict, 0)
            if verdict.fate is not Fate.SETTLED:
                break
            time.sleep(PAUSE_SECONDS)
        return False

    def _tend(self) -> None:
        """Mind the spool; what the server does not take at once is to survive the machine."""
        spool, excess = self._recorder.spool, self._unsent_bytes() - self._recorder.spool.limit
        if excess > 0:
            with suppress(OSError):
                spool.give_up(self._backlog.thin(excess), "spool_full")
        spool.tend(self._unsent_bytes())
        if self._is_waiting:
            with suppress(OSError):
                self._recorder.spool.sync()

    def _unsent(self) -> bool:
        return self._unsent_bytes() > 0 or bool(self._recorder.spool.ring or self._taken)

    def _unsent_bytes(self) -> int:
        return self._backlog.unsent_bytes()
