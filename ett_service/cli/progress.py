"""Progress on standard error, where that is a terminal."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

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


def _progress(*columns: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    return Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
