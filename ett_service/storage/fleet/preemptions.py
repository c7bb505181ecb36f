"""Attempts that ended preempted in a window, what that cost, and in whose favour it was."""

from collections.abc import Iterator, Sequence
from enum import StrEnum, auto
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    ScalarSelect,
    Subquery,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy import cast as sql_cast

from ett_service.core.dimensions import JOB_COLUMNS
from ett_service.core.fleet.owned_time import MOST_ACCELERATORS, size_of
from ett_service.core.words import Outcome
from ett_service.storage.engine.statements import ExactSums, Summed
from ett_service.storage.fleet.rollups import (
    STATEMENTS,
    CohortFilter,
    RollupPlace,
    Span,
    of_projects,
    start_of,
)
from ett_service.storage.schema import attempt_ledger, correction, job_ledger, project, recovery
from ett_service.storage.schema.record import EXCLUSION
from ett_service.storage.schema.view_expressions import json_member

_GAVE_UP = (Outcome.FAILED, Outcome.LOST)

_preempted = attempt_ledger.alias("preempted")
_favoured = attempt_ledger.alias("favoured")
_before = attempt_ledger.alias("before")


class PreemptionOrder(StrEnum):
    """Why an attempt had to make room."""

    FIRST = auto()  #: for a job that had work of its own to do
    SECOND = auto()  #: for one that came back after a failure
    UNKNOWN = auto()  #: nobody said for which, or that job is not known


class Loss(NamedTuple):
    """What preemptions of one order cost."""

    attempts: int = 0
    unsaved_weighted_us: int = 0
    recovery_weighted_us: int = 0
    unweighted: int = 0  #: of attempts with unknown accelerators, whose loss is unknown too

    @property
    def lost_weighted_us(self) -> int:
        """Unsaved time and the recovery, times accelerators."""
        return self.unsaved_weighted_us + self.recovery_weighted_us

    def plus(self, other: "Loss") -> "Loss":
        """Put both together."""
        return Loss(*map(sum, zip(self, other, strict=True)))


def losses(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    group_by: Sequence[str] = (),
    step: int | None = None,
) -> dict[tuple[RollupPlace, PreemptionOrder], Loss]:
    """Add up what was lost to preemptions that ended an attempt in the window.

    The loss is the attempt's unsaved time and the recovery that followed it, times its
    accelerators. It is of second order if the job in ``preempted_by`` was coming back after a
    failure: of its attempts that had begun by then, the last had ended `failed` or `lost`, or
    came after one that did. Places are those of ``rollups.totals``.
    """
    statement, weighted = _losses(cohort_filter, tuple(group_by), step)
    width = len(group_by) + (step is not None) + 1
    by_place = {}
    for row in conn.execute(statement, {"from_us": window[0], "to_us": window[1]}):
        *labels, order = row[:width]
        bucket = None if step is None else labels.pop()
        attempts, unweighted, *columns = row[width:]
        loss = Loss(attempts=attempts, unweighted=int(unweighted), **weighted.read(columns))
        by_place[(bucket, tuple(labels)), PreemptionOrder(order)] = loss
    return by_place


@lru_cache(STATEMENTS)
def _losses(cohort_filter: CohortFilter, group_by: tuple[str, ...], step: int | None) -> Summed:
    """Make the statement of any window: it takes longer than the database does."""
    keys: list[ColumnElement[Any]] = [_label(name) for name in group_by]
    if step is not None:
        keys.append(start_of(_preempted.c.ended_us, step))
    keys.append(_order())
    each = _each(cohort_filter, keys)
    named = [each.c[f"key_{place}"] for place in range(len(keys))]
    weighted = ExactSums.of_products(
        {"unsaved_weighted_us": each.c.unsaved_us, "recovery_weighted_us": each.c.recovered_us},
        each.c.accelerators,
    )
    counts = (func.count(), func.sum(case((each.c.accelerators == 0, 1), else_=0)))
    return select(*named, *counts, *weighted.columns).group_by(*named), weighted


def _each(cohort_filter: CohortFilter, keys: Sequence[ColumnElement[Any]]) -> Subquery:
    """Select the attempts that ended preempted, one a row; 0 for unknown accelerators."""
    is_known = _preempted.c.gpus.between(1, MOST_ACCELERATORS)
    of_its_job = and_(
        job_ledger.c.project_id == _preempted.c.project_id, job_ledger.c.job == _preempted.c.job
    )
    return (
        select(
            *(key.label(f"key_{place}") for place, key in enumerate(keys)),
            case((is_known, _preempted.c.gpus), else_=0).label("accelerators"),
            _preempted.c.unsaved_us,
            _recovered_us().label("recovered_us"),
        )
        .join_from(_preempted, job_ledger, of_its_job)
        .join(project, project.c.id == _preempted.c.project_id)
        .where(*_conditions(cohort_filter))
        .subquery("each")
    )


def _conditions(cohort_filter: CohortFilter) -> Iterator[ColumnElement[bool]]:
    yield _preempted.c.outcome == literal_column(f"'{Outcome.PREEMPTED}'")  # as in its index
    yield _preempted.c.ended_us >= bindparam("from_us")
    yield _preempted.c.ended_us < bindparam("to_us")
    yield of_projects(_preempted.c.project_id, cohort_filter)
    for name, values in sorted(cohort_filter.where.items()):
        yield _label(name).in_(sorted(values))
    if not cohort_filter.exclusions:
        yield ~_excluded()


def _label(name: str) -> ColumnElement[str]:
    """Return a label of the cohort in which the end of the attempt lies."""
    if name in ("other", "excluded"):
        return literal("")
    if name == "project":
        return project.c.name
    if name == "size":
        return _size(_preempted.c.gpus)
    if name not in JOB_COLUMNS:
        return func.coalesce(json_member(job_ledger.c.answer, "facts", name), "")
    table = _preempted if name == "code_version" else job_ledger
    return func.coalesce(table.c[name], "")


def _size(accelerators: ColumnElement[int]) -> ColumnElement[str]:
    buckets = [
        (accelerators < 2 << bits, size_of(1 << bits))
        for bits in range(MOST_ACCELERATORS.bit_length())
    ]
    countable = accelerators.between(1, MOST_ACCELERATORS)
    return case((countable, case(*buckets)), else_="")


def _recovered_us() -> ColumnElement[int]:
    of_it = select(func.sum(recovery.c.us)).where(
        recovery.c.project_id == _preempted.c.project_id,
        recovery.c.job == _preempted.c.job,
        recovery.c.interrupted == _preempted.c.number,
    )
    return func.coalesce(sql_cast(of_it.scalar_subquery(), BigInteger), 0)


def _excluded() -> ColumnElement[bool]:
    ended = _preempted.c.ended_us
    return exists().where(
        correction.c.project_id == _preempted.c.project_id,
        correction.c.job == _preempted.c.job,
        correction.c.kind == EXCLUSION,
        correction.c.taken_back_us.is_(None),
        or_(correction.c.from_us.is_(None), correction.c.from_us <= ended),
        or_(correction.c.to_us.is_(None), correction.c.to_us > ended),
    )


def _order() -> ColumnElement[str]:
    last = _last_begun(_favoured.c.number)
    followed = (
        select(_before.c.outcome)
        .where(
            _before.c.project_id == _preempted.c.project_id,
            _before.c.job == _preempted.c.preempted_by,
            _before.c.number == last - 1,
        )
        .scalar_subquery()
    )
    over = case((_favoured.c.ended_us <= _preempted.c.ended_us, _favoured.c.outcome))
    second = or_(_last_begun(over).in_(_GAVE_UP), followed.in_(_GAVE_UP))
    return case(
        (last.is_(None), PreemptionOrder.UNKNOWN.value),
        (second, PreemptionOrder.SECOND.value),
        else_=PreemptionOrder.FIRST.value,
    )


def _last_begun(column: ColumnElement[Any]) -> ScalarSelect[Any]:
    """Return a column of the attempt that the favoured job had begun last by then."""
    return (
        select(column)
        .where(
            _favoured.c.project_id == _preempted.c.project_id,
            _favoured.c.job == _preempted.c.preempted_by,
            _favoured.c.started_us <= _preempted.c.ended_us,
        )
        .order_by(_favoured.c.started_us.desc(), _favoured.c.number.desc())
        .limit(1)
        .correlate(_preempted)
        .scalar_subquery()
    )
