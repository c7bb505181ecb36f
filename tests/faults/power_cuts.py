"""What a disk holds after a power cut, from a trace of what a process wrote and synced.

The process is a server under strace. Only what a file was synced with is sure; of later writes a
cut keeps any, in any order, each as far as whole sectors of it had got to the disk.
"""

import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CDLL
from dataclasses import dataclass, field
from pathlib import Path

from tests.builders.servers.waiting import wait_for

SECTOR = 512
_CALLS = "pwrite64,write,writev,sendto,sendmsg,fdatasync,fsync,ftruncate"
_ANYBODY, _SET_TRACER = -1, 0x59616D61
_LINE = re.compile(r"(\d+) +(.*)")
_CALL = re.compile(r"(\w+)\(\d+<((?:\\x[0-9a-f]{2})*)>")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_NUMBERS = re.compile(r", (\d+), (\d+)\)")
_SIZE = re.compile(r", (\d+)\)")
_ANSWER = re.compile(rb"HTTP/1.1 200 .*?x-request-id: batch-(\d+)\r\n", re.IGNORECASE | re.DOTALL)
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")


@dataclass(frozen=True)
class Write:
    """Bytes that the system has, and the disk perhaps."""

    file: str
    offset: int
    content: bytes


@dataclass(frozen=True)
class Truncate:
    """A new length, likewise."""

    file: str
    size: int


@dataclass(frozen=True)
class Sync:
    """All that was written to the file before is on the disk."""

    file: str


@dataclass(frozen=True)
class Acknowledgement:
    """The first byte of an answer to this batch."""

    batch: int


Step = Write | Truncate | Sync | Acknowledgement


def lets_be_traced() -> None:
    """Allow any process of the same user to trace this one."""
    CDLL(None).prctl(_SET_TRACER, _ANYBODY)


def strace() -> bool:
    """Tell whether processes can be traced here."""
    return (
        shutil.which("strace") is not None
        and not subprocess.run(["strace", "-o", os.devnull, "true"], check=False).returncode
    )


@contextmanager
def traced(process: int, folder: Path) -> Iterator[list[Step]]:
    """Trace a process to the end of the block, and fill the yielded list then."""
    steps: list[Step] = []
    trace, attached = folder / "trace", folder / "attached"
    options = ["-f", "-y", "-xx", "-s", "200000", "-e", f"trace={_CALLS}", "-e", "signal=none"]
    with attached.open("wb") as out:
        command = ["strace", *options, "-o", str(trace), "-p", str(process)]
        tracer = subprocess.Popen(command, stderr=out)
    try:
        wait_for(lambda: "attached" in attached.read_text())
        yield steps
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
    steps += _steps(trace.read_text())


def _steps(trace: str) -> Iterator[Step]:
    """Put calls where they end, but acknowledgements where they begin."""
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        thread, text = match.groups()
        if text.endswith(_UNFINISHED):
            begun[thread] = text.removesuffix(_UNFINISHED)
            yield from _acknowledgements(begun[thread])
        elif resumed := _RESUMED.match(text):
            yield from _step(begun.pop(thread, "") + resumed[1])
        else:
            yield from _acknowledgements(text)
            yield from _step(text)


def _acknowledgements(call: str) -> Iterator[Acknowledgement]:
    for answer in _ANSWER.finditer(_content(call)):
        yield Acknowledgement(int(answer[1]))


def _step(call: str) -> Iterator[Step]:
    match = _CALL.match(call)
    if match is None:
        return
    name, path = match[1], Path(_bytes(match[2]).decode()).name
    if name in ("fdatasync", "fsync"):
        yield Sync(path)
    elif name == "pwrite64" and (numbers := _NUMBERS.search(call)):
        yield Write(path, int(numbers[2]), _content(call))
    elif name == "ftruncate" and (size := _SIZE.search(call)):
        yield Truncate(path, int(size[1]))


def _content(call: str) -> bytes:
    return b"".join(map(_bytes, _TEXT.findall(call)))


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


@dataclass
class Disk:
    """Files, step by step; it begins with what was synced."""

    synced: dict[str, bytearray]
    pending: list[Write | Truncate] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)

    def take(self, step: Step) -> None:
        """Go on by a step."""
        match step:
            case Acknowledgement():
                self.acknowledged.add(step.batch)
            case Sync():
                for each in self.pending:
                    if each.file == step.file:
                        _apply(self.synced, each)
                self.pending = [each for each in self.pending if each.file != step.file]
            case Write() | Truncate():
                if step.file in self.synced:
                    self.pending.append(step)

    def cut(self, draw: random.Random | None) -> dict[str, bytearray]:
        """Return the files after a cut now: those of the last syncs, and some of what followed."""
        files = {name: bytearray(content) for name, content in self.synced.items()}
        if draw is not None:
            kept = [_torn(each, draw) for each in self.pending if draw.random() < 0.5]
            for each in draw.sample(kept, len(kept)):
                _apply(files, each)
        return files


def _torn(step: Write | Truncate, draw: random.Random) -> Write | Truncate:
    if isinstance(step, Truncate) or draw.random() < 0.5:
        return step
    sectors = draw.randrange(len(step.content) // SECTOR + 1)
    first = -step.offset % SECTOR  # a write may begin within a sector
    return Write(step.file, step.offset, step.content[: first + sectors * SECTOR])


def _apply(files: dict[str, bytearray], step: Write | Truncate) -> None:
    content = files[step.file]
    end = step.size if isinstance(step, Truncate) else step.offset + len(step.content)
    content.extend(bytes(max(0, end - len(content))))
    if isinstance(step, Truncate):
        del content[end:]
    else:
        content[step.offset : end] = step.content
