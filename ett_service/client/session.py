"""The public calls that begin, feed and end the recording of this process."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Never

from ett_service.client.clock import CLOCK_ID, mono_us
from ett_service.client.current import current
from ett_service.client.exits import Exits
from ett_service.client.guard import guarded, misused, surplus, warn_once
from ett_service.client.identity import (
    USABLE_NAMES,
    Identity,
    environment_facts,
    gpus_of,
    identify,
    is_disabled,
    job_name,
)
from ett_service.client.lines import OUTCOMES, Lines, new_producer
from ett_service.client.recorder import Cost, Recorder
from ett_service.client.reporting.loop import step_due
from ett_service.client.sending.spool import Spool, default_root, job_directory
from ett_service.client.starting.opening import (
    own_launch,
    rank_of_group,
    say_facts,
    say_start,
    say_startup,
)

_EXIT_SECONDS = 1.5  #: so that an exit takes two seconds on a busy machine as well


@dataclass(frozen=True, slots=True)
class Setup:
    """Who records, where to, and what for."""

    identity: Identity
    root: Path
    url: str | None
    key: str | None = field(repr=False)


class Session:
    """The recording of this process, and of the children that it forks."""

    def __init__(self) -> None:
        self.setup: Setup | None = None
        self.recorder: Recorder | None = None
        self.sender: Any = None
        self.automatic = False  #: it began by itself, and the script may still take charge
        self._exits: Exits | None = None
        self._pid = os.getpid()
        self._is_forked = False
        self.is_first_life = True  #: nothing was recorded in this process before

    def begin(self, setup: Setup, chores: tuple[Callable[[Recorder], None], ...] = ()) -> Recorder:
        """Make a recorder and start its sender."""
        from ett_service.client import sender  # noqa: PLC0415 -- ssl and email are not cheap
        from ett_service.client.sending.delivery import Target  # noqa: PLC0415 -- likewise

        producer = new_producer()
        lines = Lines(setup.identity, producer)
        directory = job_directory(setup.root, setup.identity.job) / producer
        facts = {"job": setup.identity.job, "launch": setup.identity.launch}
        spool = Spool(directory, {**facts, "base_us": lines.base_us, "pid": os.getpid()})
        self.recorder = recorder = Recorder(setup.identity, lines, spool)
        self.setup = setup
        target = Target(setup.url, setup.key) if setup.url else None
        self.sender = sender.Sender(recorder, target, chores)
        if self.automatic:
            self.sender.hold()
        self.sender.start()
        return recorder

    def begin_here(
        self, setup: Setup, chores: tuple[Callable[[Recorder], None], ...] = ()
    ) -> Recorder:
        """Make the recorder that the public calls of this process use."""
        recorder = self.begin(setup, chores)
        recorder.cost.count_here()
        self._pid = os.getpid()
        current.use(recorder)
        return recorder

    def next_life(self, setup: Setup) -> Setup:
        """Return the setup of a life that may follow another one of its launch in this process.

        The process is what restarts it, so it counts that itself.
        """
        if self.setup is None or self._pid != os.getpid():
            return setup
        before, identity = self.setup.identity, setup.identity
        if replace(before, cycle=0) != replace(identity, cycle=0):
            return setup
        cycle = max(identity.cycle, before.cycle + 1)
        return replace(setup, identity=replace(identity, cycle=cycle))

    def watch(self) -> None:
        """Report how this process ends, a forked one that has begun its own recording included."""
        if self._exits is None:
            self._exits = Exits(_tell_end, self.close)
            self._exits.watch()
            os.register_at_fork(after_in_child=self._in_child)
        self._exits.belong_here()
        self.is_first_life = False

    @property
    def is_held(self) -> bool:
        """Whether this began by itself and nothing yet says that the process trains."""
        return self.automatic and self.sender is not None and bool(self.sender.is_held)

    def withdraw(self) -> None:
        """Take back what began by itself, as if it had never been."""
        current.clear()
        self.sender.withdraw()
        self.sender = self.recorder = None
        self.is_first_life = True

    def close(self) -> None:
        """Send what is left for a second and a half at most; the rest stays in the spool.

        The process that speaks for its attempt writes to standard error what went where.
        """
        if self.sender is None:
            return
        sender, self.sender = self.sender, None
        is_of_trainer = current.recorder is self.recorder
        if is_of_trainer:
            current.clear()
        ended_us = mono_us()
        guarded(otherwise=None)(sender.stop)(_EXIT_SECONDS)
        if is_of_trainer:
            self._report(sender, ended_us)

    @guarded(otherwise=None)
    def _report(self, sender: Any, ended_us: int) -> None:
        """Report what became of the events: to the launcher, if there is one, which says it."""
        from ett_service.client.sending import notices, tallies  # noqa: PLC0415 -- with the sender

        assert self.setup is not None
        closing = sender.closing()
        identity = self.setup.identity
        if os.environ.get(tallies.LAUNCHER):
            end = tallies.LastEnd(ended_us, identity.cycle, identity.job)
            tallies.leave(closing.directory, identity.launch, sender.sent(), end)
        elif identity.leads and not self._is_forked:
            left = _EXIT_SECONDS - (mono_us() - ended_us) / 1e6
            notices.notice(closing.line(min(left, notices.ASK_SECONDS)))

    def _in_child(self) -> None:
        if current.recorder is not None:
            current.recorder.spool.close()
            current.forked(self._revive)
        self.sender = None
        self._is_forked = True

    @guarded(otherwise=None)
    def _revive(self) -> None:
        if self.setup is not None:
            self.begin_here(self.setup)


session = Session()


@guarded(otherwise=None)
def init(
    job: str | None = None,
    *,
    url: str | None = None,
    key: str | None = None,
    gpus: int | None = None,
    torch: bool | None = None,
    **facts: object,
) -> None:
    """Begin to record this process as a part of *job*.

    Without an address (*url* or ``ETT_URL``) and without ``ETT_SPOOL``, or with ``ETT_DISABLED``
    set, every call does nothing. *torch* installs the hooks into PyTorch; by default it does so
    where torch is imported already. *facts* are the members of a ``job`` event, such as ``team``,
    ``model`` and ``labels``. What records already, and a child that it forked, is only given more
    of them.
    """
    if _is_imported_by_a_child():
        return
    if session.automatic and _is_another(job, url, key):
        _give_up_the_automatic()
    session.automatic = False
    env = os.environ
    if _is_forked_from_the_same(job, url, key):
        current.found()
    if current.recorder is not None and not current.recorder.over:
        if not current.recorder.loop.has_begun:
            current.cost.count_here()
        say_facts(current.recorder, gpus, facts)
        return
    setup = _setup(env, job, url or env.get("ETT_URL"), key or env.get("ETT_API_KEY"))
    if setup is None:
        return
    if job is not None and job != setup.identity.job and setup.identity.leads:
        warn_once(f"recorded as job {setup.identity.job}, which `ett run` was given, not as {job}")
    _begin(setup, env, gpus, facts, torch=torch)


def begin_automatically() -> None:
    """Begin with what the environment tells, on the condition that this process trains.

    Nothing is sent until a hook or a call reports something, an error ends the process, or ten
    seconds have passed; a process that ends well before that leaves nothing behind.
    """
    env = os.environ
    if current.recorder is not None or job_name(env) is None:
        return
    setup = _setup(env, None, env.get("ETT_URL"), env.get("ETT_API_KEY"))
    if setup is not None:
        session.automatic = True
        _begin(setup, env, gpus_of(env), {}, torch=True)
        session.sender.hold_this()


def _begin(
    setup: Setup,
    env: Mapping[str, str],
    gpus: int | None,
    facts: Mapping[str, object],
    *,
    torch: bool | None,
) -> None:
    session.close()
    begun = Cost().begin()  # that of the recorder, which is made on the way
    hooks = _torch_hooks(torch)
    recorder = session.begin_here(session.next_life(setup), hooks.chores if hooks else ())
    states = hooks.install(recorder) if hooks else {}
    gpus = gpus if gpus is not None else gpus_of(env)
    say_facts(recorder, gpus, {**environment_facts(env), **facts})
    launched_at = say_start(recorder, env, gpus, states, first_life=session.is_first_life)
    if session.is_first_life:
        say_startup(recorder, launched_at)
    session.watch()
    recorder.cost.end(begun)


_read_clock = time.clock_gettime_ns


def step(
    n: int | None = None,
    *rest: Never,
    samples: int | None = None,
    tokens: int | None = None,
    flops: float | None = None,
    **unknown: Never,
) -> None:
    """Report that step *n* of the job is done; the others are running totals of the job.

    Steps are counted in memory and written every 10 s, with every phase, and at once for the
    first of a loop.
    """
    steps = current.steps
    now = _read_clock(CLOCK_ID)
    steps.last = (now, n, samples, tokens, flops)
    if now >= steps.due_ns:
        step_due()
    if rest or unknown:
        surplus("step()", rest, unknown)


@guarded(otherwise=None)
def end(
    outcome: str = "completed",
    *,
    reason: str | None = None,
    exit_code: int | None = None,
    signal: int | None = None,
    exception: str | None = None,
    message: str | None = None,
    final: bool = False,
) -> None:
    """Report that this attempt is over: ``completed failed preempted`` or ``cancelled``.

    ``final`` says that no attempt of the job will follow.
    """
    if outcome not in OUTCOMES:
        misused("there is no outcome", outcome, f"; the outcomes are {', '.join(OUTCOMES)}")
        return
    ending = {
        "outcome": outcome,
        "reason": reason,
        "exit_code": exit_code,
        "signal": signal,
        "exception": exception,
        "message": message,
    }
    session.automatic = False
    _tell_end(ending)
    recorder = current.recorder
    if final and recorder is not None:
        recorder.write({"type": "job_ended", **ending})


@guarded(otherwise=False)
def flush(timeout: float = _EXIT_SECONDS) -> bool:
    """Send what is recorded, waiting *timeout* seconds at most; True if the server has it all."""
    seconds = float(timeout)
    return session.sender is not None and bool(session.sender.flush(seconds))


def _setup(
    env: Mapping[str, str], job: str | None, url: str | None, key: str | None
) -> Setup | None:
    if is_disabled(env) or not (url or env.get("ETT_SPOOL")):
        return None
    env = {**env, **rank_of_group(env)}
    identity = identify(env, job, os.uname().nodename, own_launch(env))
    if identity is None:
        misused(
            "nothing is recorded: the job has no usable name:",
            env.get("ETT_JOB") if job is None else job,
            f"; give init(job=...) or ETT_JOB: {USABLE_NAMES}",
        )
        return None
    return Setup(identity, default_root(env), url, key)


def _is_another(job: str | None, url: str | None, key: str | None) -> bool:
    """Whether these name another job or address than what is recorded has."""
    setup = session.setup
    return setup is not None and (
        (job or setup.identity.job, url or setup.url, key or setup.key)
        != (setup.identity.job, setup.url, setup.key)
    )


def _is_forked_from_the_same(job: str | None, url: str | None, key: str | None) -> bool:
    """Whether this is a fork, silent so far, of a process that records what these name."""
    setup, parents = session.setup, session.recorder
    if current.revive is None or setup is None or parents is None or parents.over:
        return False
    before = setup.identity
    own = identify(os.environ, job, before.host, before.launch)
    if own is None or own.cycle > before.cycle or _is_another(job, url, key):
        return False
    return replace(own, cycle=before.cycle) == before  # the parent may have counted its lives


def _give_up_the_automatic() -> None:
    """Leave the recording to the script, which has named another job or address."""
    if session.is_held:
        session.withdraw()
    else:
        _tell_end({"outcome": "cancelled", "reason": "init() named another job or address"})
        session.close()


def _is_imported_by_a_child() -> bool:
    """Whether a child of multiprocessing runs the main module again, to find its own work in it.

    What the module calls there unguarded was meant for the parent.
    """
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and hasattr(processes.current_process(), "_inheriting")


def _torch_hooks(install: bool | None) -> Any:
    if install is False or (install is None and "torch" not in sys.modules):
        return None
    from ett_service.client import torch  # noqa: PLC0415 -- only beside PyTorch

    return torch


@guarded(otherwise=None)
def _tell_end(ending: Mapping[str, object]) -> None:
    recorder = current.recorder
    if session.is_held and ending["outcome"] == "completed":
        session.withdraw()
    elif recorder is not None and not recorder.over:
        for last in recorder.at_end:
            guarded(otherwise=None)(last)(str(ending["outcome"]))
        recorder.end_launch()
        totals = recorder.totals() or None
        recorder.write({"type": "attempt_ended", **ending, "attributes": totals})
        recorder.over = True
