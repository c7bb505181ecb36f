"""A trainer that forks in every way, while another of its threads records all the time.

Its argument is how often it does so in each way of forking, and of starting anew. It prints how
many children should have recorded.
"""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable

import ett_service as ett

PATIENCE_S = 60


def speak() -> None:
    """Record something, with a thread of this process that sends it."""
    ett.step(1)
    with ett.phase("stalled"):
        pass


def begin() -> None:
    """Record as a process that was started anew."""
    ett.init(job="child")
    speak()
    ett.flush(PATIENCE_S)


def forked(work: Callable[[], None]) -> None:
    """Do some work in a fork, and wait for it."""
    child = os.fork()
    if child == 0:
        work()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status


def doubly() -> None:
    """Fork once more, and record in both."""
    speak()
    forked(speak)


def leave() -> None:
    """Record, and leave without a word."""
    speak()
    os._exit(0)


def record_always(done: threading.Event) -> None:
    """Hold and let go every lock there is."""
    while not done.is_set():
        with ett.phase("evaluation"):
            pass
        ett.flush(0.001)


def main() -> None:
    """Fork in every way."""
    rounds = int(sys.argv[1])
    ett.init(torch=False)
    done = threading.Event()
    recording = threading.Thread(target=record_always, args=(done,))
    recording.start()
    for _ in range(rounds):
        forked(speak)
        forked(doubly)
        forked(leave)
        forked(lambda: None)
    processes = (
        multiprocessing.get_context("spawn").Process,
        multiprocessing.get_context("forkserver").Process,
        multiprocessing.get_context("fork").Process,
    )
    for process in processes:
        for _ in range(rounds):
            child = process(target=begin)
            child.start()
            child.join(PATIENCE_S)
            assert child.exitcode == 0, (process, child.exitcode)
    done.set()
    recording.join()
    ett.end()
    os.write(1, b"%d" % (1 + 7 * rounds))


if __name__ == "__main__":
    main()
