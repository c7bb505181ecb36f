"""Work: samples, tokens and operations that ``progress`` reports, and their share of the peak."""

from collections.abc import Iterator, Sequence

from ett_service.core.errors import refuse_negative
from ett_service.core.events import Progress
from ett_service.core.intervals import HOUR_US
from ett_service.core.ledger.results import Work, WorkDone

TERA = 10**12
OPERATIONS_A_PARAMETER_AND_TOKEN = 6
"""Two for the forward pass and four for the backward pass (Kaplan et al., 2020)."""


def training_flops(parameters: int, tokens: int) -> int:
    """Operations to train a dense transformer: ``6 P D``.

    From Kaplan and others (arXiv 2001.08361). It leaves out attention over the context, which is
    small beside the parameters of large models, and anything computed again. Raises ValueError if
    an argument is negative.
    """
    refuse_negative(parameters=parameters, tokens=tokens)
    return OPERATIONS_A_PARAMETER_AND_TOKEN * parameters * tokens


def mfu_ratio(teraflops: float, attainable_teraflops: float) -> float | None:
    """MFU as a ratio: what the model needed, over what its accelerators could have done.

    As defined by Chowdhery and others (PaLM, arXiv 2204.02311): operations that are computed
    again, to save memory, do not count. What was attainable is the sum of peak rates times time,
    over all accelerators. None where nothing was. Raises ValueError if an argument is negative.
    """
    refuse_negative(teraflops=teraflops, attainable_teraflops=attainable_teraflops)
    return teraflops / attainable_teraflops if attainable_teraflops else None


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
