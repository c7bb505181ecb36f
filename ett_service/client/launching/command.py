"""The verbs of the bare client: ``ett run -- CMD`` and ``ett sync DIR``."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ett_service.client.clock import mono_us
from ett_service.client.guard import guarded
from ett_service.client.identity import (
    NAMED,
    USABLE_NAMES,
    Identity,
    gpus_of,
    hosts_of,
    is_disabled,
    job_name,
    launch_of,
)
from ett_service.client.launching.launcher import (
    child_environment,
    ending_of,
    instants,
    launcher_identity,
    left_by_child,
    run_child,
)
from ett_service.client.launching.runs import (
    ends_the_job,
    fresh_name,
    is_recorded_as,
    lacks_its_program,
    shared_name,
)
from ett_service.client.recorder import Recorder
from ett_service.client.sending.backlog import sent_lines, spools, unsent_lines
from ett_service.client.sending.courier import Tally
from ett_service.client.sending.delivery import Fate, Target
from ett_service.client.sending.leftovers import Shipment, ship
from ett_service.client.sending.notices import Closing, notice
from ett_service.client.sending.spool import default_root, job_directory
from ett_service.client.sending.tallies import collect, last_end
from ett_service.client.session import Session, Setup
from ett_service.client.starting.memory import MemoryKills, as_evidence
from ett_service.client.starting.opening import say_allocation

OK, FAILED, USAGE, OUT_OF_REACH, NOT_ALLOWED = 0, 1, 2, 4, 5
NOT_FOUND = 127
_NOTHING_RAN = frozenset({126, NOT_FOUND})
"""What a shell ends with where what it was to run cannot be run or is not there."""

_AFTER_CHILD_SECONDS = 10.0
_SYNC_SECONDS = 86_400.0
_PATIENCE_SECONDS = 300.0
_SHOWN = 60


def add_run(verbs: Any) -> None:
    """Add ``ett run`` to the command line."""
    parser = verbs.add_parser(
        "run",
        help="run a command as an attempt of a job",
        description="Run CMD, pass on its signals and its exit code, and record how it ended.",
        usage="ett run [--job JOB] [--more-follows] [--url URL] [--json] -- CMD [ARG ...]",
    )
    parser.add_argument("--job", help="the job's name; else ETT_JOB, else a fresh one")
    parser.add_argument(
        "--more-follows",
        action="store_true",
        help="the job is not over when CMD ends well: another launch goes on with it",
    )
    parser.add_argument("--url", help="where events go; else ETT_URL")
    parser.add_argument(
        "--json", action="store_true", help="report what was sent as JSON, on stderr"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD")


def add_sync(verbs: Any) -> None:
    """Add ``ett sync`` to the command line."""
    parser = verbs.add_parser(
        "sync",
        help="send the events that trainers left unsent",
        description="Send the spools of processes that are gone.",
    )
    parser.add_argument(
        "directory",
        nargs="?",
        type=Path,
        help="folder of the spools; else ETT_SPOOL, or ~/.local/state/ett/spool",
    )
    parser.add_argument("--url", help="where events go; else ETT_URL")
    parser.add_argument(
        "--wait",
        type=float,
        default=_PATIENCE_SECONDS,
        metavar="SECONDS",
        help="how long to try again while the server takes nothing (%(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; return its exit code, 128 + n where signal n ended it."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        return _complain("there is no command to run", "Try: ett run -- python train.py", USAGE)
    env = child_environment(os.environ, command, args.job, args.url)
    launch = Launch(command, env, more_follows=args.more_follows)
    if lacks_its_program(command, env):
        env["ETT_DISABLED"] = "1"
    records = not is_disabled(env)
    if records:
        _before(launch)
    try:
        ended = run_child(command, env, partial(_begun, launch) if records else _ignored)
    except OSError as error:
        return _complain(f"{command[0]}: {error.strerror}", "Check the command's name.", NOT_FOUND)
    if records:
        ending = as_evidence(ending_of(ended, command, env), launch.memory.since())
        _after(launch, ending, as_json=args.json)
    return 128 - ended.code if ended.code < 0 else ended.code


@dataclass
class Launch:
    """One command that is run as an attempt of a job."""

    command: Sequence[str]
    env: dict[str, str]  #: of the child
    more_follows: bool
    session: Session = field(default_factory=Session)
    identity: Identity | None = None  #: where the job has a name before its command runs
    fresh: str | None = None  #: the name of a job that nobody named, unless its script does
    sent: Tally = field(default_factory=Tally)  #: by the launcher itself
    memory: MemoryKills = field(default_factory=MemoryKills)
    began_us: int = field(default_factory=mono_us)
    began_s: float = field(default_factory=time.time)

    @property
    def target(self) -> Target | None:
        """Where events go, if they do."""
        url = self.env.get("ETT_URL")
        return Target(url, self.env.get("ETT_API_KEY")) if url else None


def _begin(launch: Launch, identity: Identity) -> Recorder:
    env = launch.env
    setup = Setup(identity, default_root(env), env.get("ETT_URL"), env.get("ETT_API_KEY"))
    return launch.session.begin(setup)


@guarded(otherwise=None)
def _before(launch: Launch) -> None:
    """Name the job for the child, whatever that would call it."""
    env, command = launch.env, launch.command
    if env.get("SLURM_PROCID", "0") == "0":
        env |= instants(env)  # one of all tasks asks
    name = job_name(env)
    if name is None:
        if env.get("ETT_JOB"):
            notice(f"{env['ETT_JOB'][:_SHOWN]!r} cannot name a job: {USABLE_NAMES}")
        fresh = shared_name(command, env) or fresh_name(command, launch.began_s, launch_of(env))
        launch.fresh = env["ETT_JOB"] = fresh
        return
    if (identity := launcher_identity(env, command)) is None:
        return
    env[NAMED] = name
    launch.identity = identity


@guarded(otherwise=None)
def _begun(launch: Launch) -> None:
    """Say that the attempt exists, now that its command has run for a while."""
    if launch.identity is not None:
        _say_start(_begin(launch, launch.identity), launch)


def _say_start(recorder: Recorder, launch: Launch) -> None:
    """Say that the attempt exists, with what the environment says of its machines.

    A launcher is no life of its child's rank, which reports its own start.
    """
    started: dict[str, Any] = {"type": "attempt_started", "cycle": None, "rank": None}
    if recorder.identity.leads:
        started |= {"gpus": gpus_of(launch.env), "hosts": hosts_of(launch.env)}
    recorder.write(started, launch.began_us)


@guarded(otherwise=None)
def _after(launch: Launch, ending: dict[str, Any], *, as_json: bool) -> None:
    """Report how the child ended, and with it the job, then send what it left.

    A job that only the child could name is known by what it left.
    """
    recorder = launch.session.recorder or _begin_late(launch, ending)
    if recorder is None:
        return
    if recorder.identity.leads:
        say_allocation(recorder, launch.env, launch.began_us)  # where the child did not
    is_well = ending["outcome"] == "completed"
    if is_well:
        _say_exit(recorder, launch.began_us)
    recorder.write({"type": "attempt_ended", "cycle": None, **ending})
    if (
        is_well
        and not launch.more_follows
        and ends_the_job(recorder.identity, launch.env, launch.command)
    ):
        recorder.write({"type": "job_ended", "cycle": None, **ending})
    sender = launch.session.sender
    launch.session.close()
    launch.sent = sender.sent()
    _ship_after(launch, recorder.identity, as_json=as_json)


def _say_exit(recorder: Recorder, began_us: int) -> None:
    """Say how long the processes took to go, from when the last of them had nothing more to say.

    What ended before the launch *began* was another of the same allocation.
    """
    directory = recorder.spool.directory.parent
    end = last_end(directory, recorder.identity.launch)
    if end is not None and end.at_us >= began_us:
        start, now = recorder.lines.at(end.at_us), mono_us()
        span = {"type": "span", "phase": "shutdown", "cycle": end.cycle, "start": start}
        for stage in (None, "process_exit"):
            recorder.write({**span, "stage": stage, "rank": None}, now)


def _begin_late(launch: Launch, ending: Mapping[str, Any]) -> Recorder | None:
    """Begin to record what has ended, once it is known whether the child has named the job itself.

    Where nothing ran there is no attempt: a shell says so by its code at once.
    """
    env, fresh = launch.env, launch.fresh
    left = left_by_child(env, launch.command, launch.began_us)
    if left is not None and launch.identity is None and left.job != fresh:
        return _begin(launch, left)
    if left is None and ending.get("exit_code") in _NOTHING_RAN:
        return None
    identity = launch.identity or launcher_identity(env, launch.command)
    if identity is None:
        return None
    if launch.identity is None:
        if fresh is None or not is_recorded_as(fresh, default_root(env), launch.began_s):
            return None
        notice(f"recorded as job {fresh}; --job names it")
    recorder = _begin(launch, identity)
    _say_start(recorder, launch)
    return recorder


def sync(args: argparse.Namespace) -> int:
    """Send every spool under the directory."""
    root: Path = args.directory or default_root(os.environ)
    url = args.url or os.environ.get("ETT_URL")
    if not url:
        hint = "Give --url or ETT_URL, as in ETT_URL=http://127.0.0.1:8080"
        return _complain("there is no address to send to", hint, USAGE)
    if not root.is_dir():
        return _complain(f"{root} is not a directory", "Give the directory of the spools.", USAGE)
    target = Target(url, os.environ.get("ETT_API_KEY"))
    shipment = ship(
        spools(root),
        target,
        seconds=_SYNC_SECONDS,
        patience_s=args.wait,
        progress=_progress(),
        say=notice,
    )
    _tell(shipment, as_json=args.json, file=sys.stdout)
    return _exit_of(shipment, root)


def _ship_after(launch: Launch, identity: Identity, *, as_json: bool) -> None:
    """Send what the child left, and say what went where; its exit code stays its own."""
    directory = job_directory(default_root(launch.env), identity.job)
    shipment = Shipment()
    launch.sent.accepted += sent_lines(directory, identity.launch)
    if launch.target is not None:
        try:
            shipment = ship(spools(directory), launch.target, seconds=_AFTER_CHILD_SECONDS)
        except OSError as error:
            _complain(str(error), f"Later: ett sync {directory}", FAILED)
            return
    if as_json:
        _tell(shipment, as_json=True, file=sys.stderr)
    unsent = unsent_lines(directory)
    tally = shipment.tally + launch.sent + collect(directory, identity.launch)
    if unsent or not as_json:
        trouble = "" if shipment.stopped_by is None else shipment.stopped_by.reason
        closing = Closing(identity.job, launch.target, directory, tally, unsent, trouble)
        notice(closing.line())


def _exit_of(shipment: Shipment, root: Path) -> int:
    """Say what went wrong and what to try, and return the exit code for it."""
    verdict = shipment.stopped_by
    if verdict is None:
        if shipment.tally.rejected:
            hint = f"They are kept, each with its reason, in refused.jsonl under {root}"
            return _complain(f"{shipment.tally.rejected} events were refused", hint, FAILED)
        return OK
    if verdict.fate is Fate.FORBIDDEN:
        hint = "Set ETT_API_KEY to a key with the scope `write`: ett keys create"
        return _complain(verdict.reason, hint, NOT_ALLOWED)
    hint = f"Check ETT_URL and that the service runs, then: ett sync {root}"
    return _complain(verdict.reason, hint, OUT_OF_REACH)


def _tell(shipment: Shipment, *, as_json: bool, file: Any) -> None:
    counts = asdict(shipment.tally)
    state = {"spools": shipment.spools, "in_use": shipment.in_use, "left": shipment.left}
    if as_json:
        print(json.dumps(counts | state), file=file)
        return
    summary = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    spools = {"sent": shipment.spools, "in use": shipment.in_use, "left": shipment.left}
    spare = ", ".join(f"{_spools(count)} {what}" for what, count in spools.items() if count)
    print(f"{summary or 'no events sent'} ({spare or 'no spools'})", file=file)


def _spools(count: int) -> str:
    return "1 spool" if count == 1 else f"{count} spools"


def _progress() -> Callable[[Shipment], None]:
    """Return what draws a progress line where somebody looks, ten times a second at most."""
    drawn_at = time.monotonic()

    def draw(shipment: Shipment) -> None:
        nonlocal drawn_at
        if sys.stderr.isatty() and time.monotonic() - drawn_at > 0.1:  # noqa: PLR2004 -- a tenth
            drawn_at = time.monotonic()
            line = f"\rett sync: {shipment.tally.settled} events sent, {shipment.spools} spools"
            sys.stderr.write(line + "\x1b[K\r")

    return draw


def _ignored() -> None:
    """Take no note of a command that runs unrecorded."""


def _complain(message: str, hint: str, code: int) -> int:
    sys.stderr.write(f"ett: {message}\n     {hint}\n")
    return code
