"""What ``ett doctor`` looks at on any machine, a trainer's included: standard library only."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum, auto
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ett_service.cli.arguments import DEFAULT_URL
from ett_service.client.backlog import adopted, spools
from ett_service.client.spool import default_root
from ett_service.client.transport import Response, Unreachable, request

_TIMEOUT_S = 5.0
_NO_KEY = 401
_FORBIDDEN = 403
_OLDEST_TORCH = (2, 6)


class Status(StrEnum):
    """What a check found; a ``WARN`` works, but not as well as it could."""

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


Check = Callable[[argparse.Namespace], Iterator[Finding]]


def python(_: argparse.Namespace) -> Iterator[Finding]:
    """Tell the interpreter."""
    found = f"{platform.python_version()} at {sys.executable}"
    yield Finding("python", Status.OK, found)


def server(args: argparse.Namespace) -> Iterator[Finding]:
    """Tell whether the server answers, is ready, and knows the key."""
    url = (args.url or DEFAULT_URL).rstrip("/")
    try:
        ready = request("GET", f"{url}/readyz", timeout=_TIMEOUT_S)
    except Unreachable as error:
        # Without an address nobody said that a server should run here.
        status = Status.FAIL if args.url else Status.WARN
        todo = "Start it with `ett serve`, or name it with --url or ETT_URL."
        yield Finding("server", status, str(error), todo)
        return
    if ready.status == 200:  # noqa: PLR2004 -- HTTP's word for well
        yield Finding("server", Status.OK, f"{url} is ready")
    else:
        todo = f"{url}/readyz names the part that is not ready."
        yield Finding("server", Status.FAIL, f"{url} answers {ready.status}", todo)
    yield _key(url, args.key)


def _key(url: str, key: str | None) -> Finding:
    if not key:
        todo = "Name one with --key or ETT_API_KEY; `ett keys create` makes one."
        return Finding("key", Status.WARN, "no key is named", todo)
    try:
        status = _listed(url, key).status
    except Unreachable as error:
        return Finding("key", Status.FAIL, str(error), "Run `ett doctor` again.")
    if status == _NO_KEY:
        todo = "Check it for a typing error; `ett keys list` shows those that stand."
        return Finding("key", Status.FAIL, "the server knows no such key", todo)
    found = "known to the server" + ("; it may not read" if status == _FORBIDDEN else "")
    return Finding("key", Status.OK, found)


def _listed(url: str, key: str) -> Response:
    return request("GET", f"{url}/v1/jobs?limit=1", key, timeout=_TIMEOUT_S)


def torch(_: argparse.Namespace) -> Iterator[Finding]:
    """Tell whether PyTorch is one whose compiles and checkpoints are seen by themselves."""
    try:
        found = version("torch")
    except PackageNotFoundError:
        yield Finding("torch", Status.OK, "not installed; trainers elsewhere report for themselves")
        return
    if _numbers(found) < _OLDEST_TORCH:
        todo = "Use PyTorch 2.6 or later, or report these phases with ett.phase()."
        yield Finding("torch", Status.WARN, f"{found} has not all the hooks that are used", todo)
    else:
        yield Finding("torch", Status.OK, f"{found}; compiles and checkpoints are hooked")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())


def spool(_: argparse.Namespace) -> Iterator[Finding]:
    """Tell what dead trainers of this machine left unsent."""
    root = default_root(os.environ)
    try:
        left = _left(root)
    except OSError as error:
        todo = f"Give yourself access to {root}, or choose another place with ETT_SPOOL."
        yield Finding("spool", Status.FAIL, str(error), todo)
        return
    if left:
        found = f"{sum(left)} bytes in {len(left)} spools of dead processes under {root}"
        yield Finding("spool", Status.WARN, found, f"Send them: ett sync {root}")
    else:
        yield Finding("spool", Status.OK, f"nothing unsent under {root}")


def _left(root: Path) -> list[int]:
    sizes = []
    for directory in spools(root):
        with adopted(directory) as backlog:
            if backlog is not None and (unsent := backlog.unsent_bytes()):
                sizes.append(unsent)
    return sizes


EVERYWHERE: tuple[Check, ...] = (python, server, torch, spool)
"""In the order in which they are printed."""
