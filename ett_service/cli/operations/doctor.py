"""``ett doctor``: finds what is wrong with this installation, and says what to do about it.

These checks work on any machine, a trainer's included: on the standard library alone.
"""

import importlib
import json
import os
import platform
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum, auto
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ett_service.cli.arguments import DEFAULT_URL, config, names_settings, server
from ett_service.cli.verb import Exit, Verb
from ett_service.client.sending.backlog import adopted, spools
from ett_service.client.sending.spool import default_root
from ett_service.client.sending.transport import Response, Unreachable, request

_TIMEOUT_S = 5.0
_NO_KEY = 401
_FORBIDDEN = 403
_OLDEST_TORCH = (2, 6)
_MOST_SKEW_S = 5
_MOST_WAITED_S = 300


class Status(StrEnum):
    """The outcome of a check; what has a ``WARN`` works, but not as well as it could."""

    OK = auto()
    WARN = auto()
    FAIL = auto()


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis; ``todo`` is empty where nothing is to be done."""

    check: str
    status: Status
    found: str
    todo: str = ""


Check = Callable[[Namespace], Iterator[Finding]]


def python(_: Namespace) -> Iterator[Finding]:
    """Report the interpreter."""
    yield Finding("python", Status.OK, f"{platform.python_version()} at {sys.executable}")


def server_and_key(args: Namespace) -> Iterator[Finding]:
    """Check whether the server answers, is ready, and knows the key."""
    url = (args.url or DEFAULT_URL).rstrip("/")
    try:
        ready = request("GET", f"{url}/readyz", timeout=_TIMEOUT_S)
    except Unreachable as error:
        # Without an address no server need run here.
        status = Status.FAIL if args.url else Status.WARN
        todo = "Start it with `ett serve`, or name it with --url or ETT_URL."
        yield Finding("server", status, str(error), todo)
        return
    if ready.status == 200:  # noqa: PLR2004 -- HTTP's word for well
        yield Finding("server", Status.OK, f"{url} is ready")
        yield from _waiting(ready)
    else:
        todo = f"{url}/readyz names the part that is not ready."
        yield Finding("server", Status.FAIL, f"{url} answers {ready.status}", todo)
    yield _key(url, args.key)
    yield from _clock(ready)


def _waiting(ready: Response) -> Iterator[Finding]:
    """Say how many jobs wait to be folded, and whether one has for too long."""
    try:
        answer = json.loads(ready.body)
        jobs, since = answer["waiting_jobs"], answer["waiting_since"]
        waited_s = (
            (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds() if since else 0
        )
    except (ValueError, KeyError, TypeError):
        return
    if not jobs:
        return
    found = f"jobs not folded in yet: {jobs}"
    if waited_s <= _MOST_WAITED_S:
        yield Finding("worker", Status.OK, found)
        return
    todo = "If this goes on, the worker's log names each job that it cannot fold: job_put_off."
    yield Finding("worker", Status.WARN, f"{found}, the oldest since {since}", todo)


def _clock(ready: Response) -> Iterator[Finding]:
    """Compare clocks, to the second, as far as the server names its own."""
    try:
        there = parsedate_to_datetime(ready.headers["date"])
    except (KeyError, ValueError):
        return
    ahead_s = round((datetime.now(UTC) - there).total_seconds())
    if abs(ahead_s) <= _MOST_SKEW_S:
        yield Finding("clock", Status.OK, "within seconds of the server's")
    else:
        side = "ahead of" if ahead_s > 0 else "behind"
        todo = "Set it, such as by NTP. The server corrects events by it, and flags them."
        yield Finding("clock", Status.WARN, f"{abs(ahead_s)} s {side} the server's", todo)


def _key(url: str, key: str | None) -> Finding:
    if not key:
        todo = "Name one with --key or ETT_API_KEY; `ett keys create` makes one."
        return Finding("key", Status.WARN, "no key is named", todo)
    try:
        status = _listed(url, key).status
    except Unreachable as error:
        return Finding("key", Status.FAIL, str(error), "Run `ett doctor` again.")
    if status == _NO_KEY:
        todo = "Check it for a typing error; `ett keys list` shows the active keys."
        return Finding("key", Status.FAIL, "the server does not know this key", todo)
    limit = "; it may not read" if status == _FORBIDDEN else ""
    return Finding("key", Status.OK, f"known to the server{limit}")


def _listed(url: str, key: str) -> Response:
    return request("GET", f"{url}/v1/jobs?limit=1", key, timeout=_TIMEOUT_S)


def torch(_: Namespace) -> Iterator[Finding]:
    """Check whether PyTorch has the hooks that report compiles and checkpoints."""
    try:
        torch_version = version("torch")
    except PackageNotFoundError:
        yield Finding("torch", Status.OK, "not installed; only trainers need it")
        return
    if _numbers(torch_version) < _OLDEST_TORCH:
        todo = "Use PyTorch 2.6 or later, or report these phases with ett.phase()."
        yield Finding("torch", Status.WARN, f"{torch_version} lacks some hooks", todo)
    else:
        yield Finding("torch", Status.OK, f"{torch_version}; compiles and checkpoints are hooked")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())


def spool(_: Namespace) -> Iterator[Finding]:
    """Check what dead trainers of this machine left unsent."""
    root = default_root(os.environ)
    try:
        left = _left(root)
    except OSError as error:
        todo = f"Give yourself access to {root}, or choose another place with ETT_SPOOL."
        yield Finding("spool", Status.FAIL, str(error), todo)
        return
    if left:
        unsent = f"{sum(left)} bytes in {len(left)} spools of dead processes under {root}"
        yield Finding("spool", Status.WARN, unsent, f"Send them: ett sync {root}")
    else:
        yield Finding("spool", Status.OK, f"nothing unsent under {root}")


def _left(root: Path) -> list[int]:
    sizes = []
    for directory in spools(root):
        with adopted(directory) as backlog:
            if backlog is not None and (unsent := backlog.unsent_bytes()):
                sizes.append(unsent)
    return sizes


EVERYWHERE: tuple[Check, ...] = (python, server_and_key, torch, spool)
"""In the order in which they are printed."""


def _findings(args: Namespace) -> list[Finding]:
    return [finding for check in (*EVERYWHERE, *_of_the_server(args)) for finding in check(args)]


def _of_the_server(args: Namespace) -> tuple[Check, ...]:
    """Import the checks of this machine's settings and database, where a server may run here."""
    if args.url and not names_settings(args):
        elsewhere = "those of the server; this machine names a server and no settings"
        return (lambda _: iter((Finding("settings", Status.OK, elsewhere),)),)
    try:
        module = importlib.import_module("ett_service.cli.operations.server_checks")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ett_service"):
            raise
        reason = f"this is a client only ({error.name} is missing)"
        return (lambda _: iter((Finding("packages", Status.OK, reason),)),)
    checks: tuple[Check, ...] = module.OF_THE_SERVER
    return checks


def _write(findings: list[Finding], _args: Namespace) -> None:
    for finding in findings:
        first, *more = finding.found.splitlines()
        print(f"{finding.status:<5}{finding.check:<10}{first}")
        for line in (*more, *([finding.todo] if finding.todo else [])):
            print(f"{'':<15}{line}")


def _gate(findings: list[Finding], _args: Namespace) -> Exit:
    is_faulty = any(finding.status is Status.FAIL for finding in findings)
    return Exit.GATE if is_faulty else Exit.DONE


VERB = Verb(options=(config, server), run=_findings, write=_write, exit_code=_gate)
