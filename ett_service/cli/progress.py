"""Progress on standard error, where that is a terminal."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from typing_extensions import override

_PATIENCE_S = 1.0
_DESCRIPTORS = Path("/proc/self/fd")

T = TypeVar("T")


def counted(items: Iterable[T], what: str) -> Iterator[T]:
    """Pass *items* on, and count them."""
    with _progress(SpinnerColumn(), TextColumn("{task.completed} {task.description}")) as progress:
        yield from progress.track(items, description=what)


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar; the function takes how many are done, and of how many."""
    with _progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    ) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=max(total, done))


@contextmanager
def reading(paths: Sequence[Path], counts: Callable[[], str]) -> Iterator[None]:
    """Show *counts*, once that takes longer than people like to wait.

    Where *paths* are plain files, a bar shows how much of their bytes has been read.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    sizes = {os.path.realpath(path): path.stat().st_size for path in paths if path.is_file()}
    known = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    progress = _Reading(
        TextColumn("{task.description}"),
        *(known if len(sizes) == len({*paths}) else (SpinnerColumn(),)),
        console=console,
        transient=True,
        redirect_stdout=False,  # it may be a pipe, and is data
        redirect_stderr=False,
    )
    progress.show(counts, sizes)
    patience = Timer(_PATIENCE_S, progress.start)
    patience.start()
    try:
        yield
    finally:
        patience.cancel()
        patience.join()
        progress.stop()


class _Reading(Progress):
    """Looks how far files are read by this process's own descriptors, where the system has them."""

    _counts: Callable[[], str] = staticmethod(str)
    _sizes: Mapping[str, int] = {}

    def show(self, counts: Callable[[], str], sizes: Mapping[str, int]) -> None:
        """Show *counts* and how much of files of these *sizes* has been read."""
        self._counts, self._sizes = counts, sizes
        self._read = dict.fromkeys(sizes, 0)
        self.add_task("", total=sum(sizes.values()) or None)

    @override
    def get_renderables(self) -> Iterable[RenderableType]:
        for path, position in _positions():
            if path in self._sizes:
                # Those named before it are over; one that is read again does not go back.
                for other in self._sizes:
                    if other == path:
                        break
                    self._read[other] = self._sizes[other]
                self._read[path] = max(self._read[path], min(position, self._sizes[path]))
        for task in self.task_ids:
            self.update(task, completed=sum(self._read.values()), description=self._counts())
        return super().get_renderables()


def _positions() -> Iterator[tuple[str, int]]:
    """Yield the files that are open, and up to where each has been read."""
    with suppress(OSError):
        for descriptor in list(_DESCRIPTORS.iterdir()):
            with suppress(OSError):
                position = os.lseek(int(descriptor.name), 0, os.SEEK_CUR)
                yield str(descriptor.readlink()), position


def _progress(*columns: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    return Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
