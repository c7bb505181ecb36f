"""Trainers that are killed: a program that forks them, and prints what each had got through.

Its arguments are a folder for their spools, how many, and a seed. It has imported the client, so a
trainer costs a fork. Half of them are killed by a signal, half leave by ``os._exit``.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import ett_service as ett
from ett_service.client import sender  # noqa: F401 -- or each child would import it

LONGEST_LIFE_S = 0.04


def train(out: int, exits_at: float | None) -> NoReturn:
    """Record and say so, until somebody ends this process, or until it leaves without a word."""
    ett.init()
    os.write(out, b"0\n")
    began, n = time.monotonic(), 0
    while True:
        n += 1
        with ett.phase("evaluation"):
            pass
        with ett.checkpoint(n):
            pass
        os.write(out, b"%d\n" % n)
        if exits_at is not None and time.monotonic() - began > exits_at:
            os._exit(9)


def life(spool: Path, draw: random.Random) -> int:
    """Fork a trainer, end it, and return how many rounds were over."""
    os.environ["ETT_SPOOL"] = str(spool)
    seconds = draw.uniform(0.0, LONGEST_LIFE_S)
    leaves = draw.random() < 0.5
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        train(writing, seconds if leaves else None)
    os.close(writing)
    with os.fdopen(reading, "rb") as printed:
        printed.readline()
        if not leaves:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return int((printed.read().splitlines() or [b"0"])[-1])


def main() -> None:
    """End so many, and print for each the last round that was over."""
    folder, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    draw = random.Random(seed)
    for number in range(count):
        os.write(1, b"%d\n" % life(folder / str(number), draw))


if __name__ == "__main__":
    main()
