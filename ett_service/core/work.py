"""Work: the running totals of samples, tokens and operations that ``progress`` reports."""

from collections.abc import Iterator, Sequence

from ett_service.core.answer import Work, WorkDone
from ett_service.core.event import Progress
from ett_service.core.flops import TERA, training_flops
from ett_service.core.interval import HOUR_US

_MOST = 2**53


class WorkHours:
    """The highest totals that one attempt reported, by hour."""

    def __init__(self) -> None:
        self.highest: dict[int, Work] = {}

    def add(self, at: int, event: Progress) -> None:
        """Take in what *event*, which happened *at*, reports."""
        if event.samples is None and event.tokens is None and event.flops is None:
            return
        hour = at - at % HOUR_US
        known = self.highest.get(hour, Work())
        teraflops = min(_MOST, int(event.flops or 0) // TERA)
        said = Work(event.samples or 0, event.tokens or 0, teraflops)
        self.highest[hour] = Work(*map(max, known, said))


def work_done(attempts: Sequence[WorkHours], parameters: int | None) -> tuple[WorkDone, ...]:
    """Return by how much each attempt raised the job's totals in each hour, in order.

    Totals that fall behind, as after a restart from a checkpoint, raise nothing until they pass
    what the job had reached. Where no attempt reports operations they are 6 x *parameters* x
    tokens (Kaplan et al., 2020).
    """
    raised = tuple(_raised(attempts))
    if not parameters or any(done.work.teraflops for done in raised):
        return raised
    return tuple(_with_operations(raised, parameters))


def _raised(attempts: Sequence[WorkHours]) -> Iterator[WorkDone]:
    reached = Work()
    for number, hours in enumerate(attempts):
        for hour in sorted(hours.highest):
            top = Work(*map(max, reached, hours.highest[hour]))
            if top != reached:
                yield WorkDone(hour, number, _less(top, reached))
            reached = top


def _with_operations(raised: Sequence[WorkDone], parameters: int) -> Iterator[WorkDone]:
    tokens = counted = 0
    for done in raised:
        tokens += done.work.tokens
        operations = training_flops(parameters, tokens)
        reached = min(_MOST, operations // TERA)
        yield done._replace(work=done.work._replace(teraflops=reached - counted))
        counted = reached


def produced(done: Sequence[WorkDone]) -> Work:
    """Return the job's totals."""
    return Work(*map(sum, zip(*(one.work for one in done), strict=True))) if done else Work()


def _less(one: Work, other: Work) -> Work:
    return Work(*(high - low for high, low in zip(one, other, strict=True)))
