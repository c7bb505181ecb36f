"""Inject faults into everything that a trainer touches, and print what came out, as JSON.

Its arguments are a number of faults and a seed. A fault *escapes* where the trainer meets an
exception that is not its own, is *uncounted* where what was dropped shows nowhere, and *chatters*
where it is logged twice.
"""

import json
import logging
import random
import sys
from collections import Counter

import ett_service as ett
from ett_service.client import guard
from ett_service.client.current import current
from tests.client.faults import callbacks, calls, disks, hooks, surroundings
from tests.client.faults.odd import Fault, total

FAULTS: tuple[Fault, ...] = (
    *calls.FAULTS, *hooks.FAULTS, *callbacks.FAULTS, *surroundings.FAULTS, *disks.FAULTS,
)  # fmt: skip


class Heard(logging.Handler):
    """Counts what is logged, and raises at times, as a trainer's own handler may."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines[record.getMessage()] += 1
        with ett.phase("evaluation"):
            ett.step(len(self.lines))
        if len(self.lines) % 3 == 0:
            raise OSError("the trainer's log is full")


def inject(fault: Fault, draw: random.Random) -> str | None:
    """Inject one fault; return what is wrong with how it was taken, if anything."""
    if current.recorder is None or current.recorder.over:
        ett.init("faults")
    before = total()
    try:
        fault.inject(draw)
    except BaseException as error:  # noqa: BLE001 -- whatever comes out is what is looked for
        return f"escaped: {type(error).__name__}: {guard.shown(error)}"
    return "uncounted" if fault.is_counted and total() <= before else None


def main(number: int, seed: int) -> None:
    heard = Heard()
    logger = logging.getLogger("ett_service")
    logger.addHandler(heard)
    logger.propagate = False
    draw = random.Random(seed)
    wrong: Counter[str] = Counter()
    injected: Counter[str] = Counter()
    for n in range(number):
        fault = FAULTS[n % len(FAULTS)]
        injected[fault.name] += 1
        if (complaint := inject(fault, draw)) is not None:
            wrong[f"{fault.name} {complaint}"] += 1
    chatter = [line for line, times in heard.lines.items() if times > 1]
    findings = {"injected": injected, "wrong": wrong, "chatter": chatter, "log": list(heard.lines)}
    print(json.dumps(findings))  # noqa: T201 -- for who reads it


main(int(sys.argv[1]), int(sys.argv[2]))
