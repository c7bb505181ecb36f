"""DataFrames over SQL, from the public views; sums by step and group equal those of the server."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import starmap
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.errors import DatabaseError
from sqlalchemy import URL, Connection, Engine, create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from ett_service.core.dimensions import GROUPS, JOB_DIMENSIONS
from ett_service.core.intervals import Interval, rfc3339, whole_days
from ett_service.core.words import Category, Owner, Period
from ett_service.frames import columns
from ett_service.frames.columns import cast
from ett_service.frames.http import ledger_frame, waits_frame
from ett_service.frames.source import FrameError, When, checked, regressions_frame

_STEPS = {"1h": "1h", "1d": "1D", "1w": "7D"}
_SAME = (
    "attempts",
    "e2e_seconds",
    "weighted_seconds",
    "gpu_seconds",
    "queue_wait_seconds",
    "between_runs_seconds",
    "effective_at_reference_seconds",
    "effective_at_reference_weighted_seconds",
    "slowed_seconds",
    "slowed_weighted_seconds",
    "speed_unmeasured_seconds",
    "speed_unmeasured_weighted_seconds",
    "data_wait_seconds",
    "data_wait_weighted_seconds",
    "data_wait_loop_seconds",
    "data_wait_loop_weighted_seconds",
    "data_wait_attempts",
    "failures",
    "infra_failures",
    *(f"{category}_seconds" for category in Category),
    *(f"{category}_weighted_seconds" for category in Category),
    *(
        f"{owner}_{name}"
        for owner in Owner
        for name in ("wait_seconds", "wait_weighted_seconds", "queue_seconds")
    ),
)
_TRAINING = f"{Period.TRAINING}_period_seconds"
_SUMMED = (*_SAME, "jobs", "unsaved_seconds", "wasted_seconds", _TRAINING)


def rolled_up(
    rows: pd.DataFrame,
    *,
    step: str | None,
    group_by: Sequence[str],
    where: Sequence[str],
    window: tuple[datetime, datetime],
) -> pd.DataFrame:
    """Sum *rows* of the rollup views, which lie in the window and do not overlap.

    A job counts in the first row of a bucket that it lives in (``jobs_first``, which is the view's
    ``jobs_hour`` or ``jobs_day``), and then where it begins.

    Raises:
        FrameError: for an unknown step, dimension or condition.
    """
    _refuse_unknown(step, group_by)
    chosen = _matching(rows, where)
    begin = pd.Timestamp(window[0])
    start = pd.to_datetime(chosen["start_us"], unit="us", utc=True)
    bucket = _bucket(start, step, begin)
    begins = start == bucket.where(bucket > begin, begin)
    counted = chosen["jobs_first"].where(begins, chosen["jobs_started"])
    keys = pd.DataFrame(
        {
            "start_at": bucket,
            **{name: chosen[name].replace("", None) for name in group_by},
            "other": chosen["other"].astype(bool),
        }
    )
    by = [*(["start_at"] if step else []), *group_by, *(["other"] if group_by else [])]
    summed = pd.concat([keys, chosen.assign(jobs=counted)[list(_SUMMED)]], axis="columns")
    totals = _totals(summed, by)
    if step and not group_by:
        totals = _every_step(totals, step, window)
    return columns.cast(_divided(totals), columns.rollup_columns(group_by, over_time=bool(step)))


def _refuse_unknown(step: str | None, group_by: Sequence[str]) -> None:
    if step is not None and step not in _STEPS:
        raise FrameError(
            f"{step!r} is not a step", f"A step is one of: {', '.join(_STEPS)}, or None."
        )
    for name in group_by:
        if name not in GROUPS:
            raise FrameError(
                f"{name!r} is not a dimension", f"A dimension is one of: {', '.join(GROUPS)}."
            )


def _matching(rows: pd.DataFrame, where: Sequence[str]) -> pd.DataFrame:
    allowed: dict[str, set[str]] = {}
    for condition in where:
        name, colon, value = condition.partition(":")
        if not colon or name not in GROUPS:
            raise FrameError(
                f"{condition!r} is not a condition", "A condition is NAME:VALUE, such as team:a."
            )
        allowed.setdefault(name, set()).add(value)
    if allowed.keys() - {"project"}:
        rows = rows[~rows["other"].astype(bool)]
    for name, values in allowed.items():
        rows = rows[rows[name].isin(values)]
    return rows


def _bucket(
    start: "pd.Series[pd.Timestamp]", step: str | None, begin: pd.Timestamp
) -> "pd.Series[pd.Timestamp]":
    if step is None:
        return pd.Series(begin, index=start.index)
    if step == "1w":
        midnight = start.dt.floor("D")
        return midnight - pd.to_timedelta(midnight.dt.day_of_week, unit="D")
    return start.dt.floor("h" if step == "1h" else "D")


def _totals(summed: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    if by:
        totals = (
            summed.groupby(list(by), dropna=False, sort=True)[list(_SUMMED)].sum().reset_index()
        )
        return totals if "other" in by else totals.assign(other=False)
    return summed[list(_SUMMED)].sum().to_frame().T.assign(other=False)


def _every_step(totals: pd.DataFrame, step: str, window: tuple[datetime, datetime]) -> pd.DataFrame:
    """Return a row for each step of the window, zeros for those without time."""
    edges = pd.Series(list(window))
    begin = _bucket(edges, step, edges[0])[0]
    every = pd.date_range(
        begin, edges[1], freq=pd.Timedelta(_STEPS[step]), inclusive="left", name="start_at"
    )
    numbers = totals.set_index("start_at")[list(_SUMMED)]
    return numbers.reindex(every, fill_value=0).reset_index().assign(other=False)


def _divided(totals: pd.DataFrame) -> pd.DataFrame:
    return totals.assign(
        unsaved_training_seconds=totals["unsaved_seconds"],
        ett_ratio=_ratio(totals, "effective_training_weighted_seconds", "weighted_seconds"),
        ett_ratio_wall=_ratio(totals, "effective_training_seconds", "e2e_seconds"),
        wasted_ratio=_ratio(totals, "wasted_seconds", _TRAINING),
    )


def _ratio(totals: pd.DataFrame, part: str, whole: str) -> "pd.Series[float]":
    return totals[part].div(totals[whole].where(totals[whole] > 0)).fillna(0.0)


_FILTERS = frozenset({"project", *JOB_DIMENSIONS, "state"})
_HOUR = timedelta(hours=1)
_DAY_LENGTH = len("2026-11-09")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SqlSource:
    """A database of the service, PostgreSQL or SQLite."""

    def __init__(self, address: str, project: str | None = None) -> None:
        self._engine = _engine(address)
        self._own = {} if project is None else {"project": project}

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def read(self, sql: str, **parameters: str | float) -> pd.DataFrame:
        """Return the rows of any query; ``:name`` in it stands for a parameter of that name.

        Raises:
            FrameError: where the database refuses it.
        """
        with self._reading() as conn:
            return pd.read_sql_query(text(sql), conn, params=parameters)

    def jobs(self, **where: str) -> pd.DataFrame:
        """Return a row a job, in the order of their names."""
        where = {**self._own, **where}
        unknown = where.keys() - _FILTERS
        if unknown:
            raise FrameError(
                f"jobs cannot be filtered by {', '.join(sorted(unknown))}",
                f"Filters: {', '.join(sorted(_FILTERS))}.",
            )
        frame = self.read(
            f"SELECT * FROM ett_v_jobs{_where(_equal(where))}",  # noqa: S608 -- names of a closed list
            **where,
        )
        return cast(frame.sort_values("job", ignore_index=True), columns.JOBS)

    def attempts(self, job: str) -> pd.DataFrame:
        """Return a row an attempt of *job*, in order."""
        return cast(self._of_job("ett_v_attempts", "number", job), columns.ATTEMPTS)

    def ledger(self, job: str) -> pd.DataFrame:
        """Return a row a category: seconds, and their share of E2E."""
        row = self._of_job("ett_v_jobs", "job", job).iloc[0]
        return ledger_frame({name: float(row[f"{name}_seconds"]) for name in Category})

    def waits(self, job: str) -> pd.DataFrame:
        """Return what *job* waited by part and owner: the queue, and periods, each in seconds."""
        return waits_frame(self._of_job("ett_v_waits", "part", job).to_dict("records"))

    def segments(self, job: str) -> pd.DataFrame:
        """Return the stretches that E2E of *job* is cut into, in order."""
        return cast(self._of_job("ett_v_phases", "started_us", job), columns.SEGMENTS)

    def rollups(
        self,
        *,
        step: str | None = "1d",
        group_by: Sequence[str] = (),
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
        exclusions: str = "left_out",
    ) -> pd.DataFrame:
        """Return the fleet's sums by step and group; see ``Source.rollups``."""
        window = _hours(begin, end)
        span = _us(window[0]), _us(window[1])
        days, ends = (None, [span]) if step == "1h" else whole_days(span)
        pieces = [("day", days)] if days else []
        pieces += [("hour", each) for each in ends or ([] if days else [span])]
        frame = self.read(" UNION ALL ".join(starmap(self._rows, pieces)), **self._own)
        if ends:
            self._require_hours(ends[0][0])
        if exclusions == "left_out":
            frame = frame[~frame["excluded"].astype(bool)]
        return rolled_up(frame, step=step, group_by=group_by, where=where, window=window)

    def _rows(self, first: str, span: Interval) -> str:
        """Return the query of the rows of a span, each of which covers an hour or a day."""
        view = {"hour": "ett_v_rollup_hourly", "day": "ett_v_rollup_daily"}[first]
        conditions = [f"start_us >= {span[0]}", f"start_us < {span[1]}", *_equal(self._own)]
        return f"SELECT {view}.*, jobs_{first} AS jobs_first FROM {view}{_where(conditions)}"  # noqa: S608 -- ours

    def _require_hours(self, from_us: int) -> None:
        """Refuse what was read if some of its hours may have been gone.

        The horizon moves before any hour goes, and forward only: it is read last.
        """
        (horizon_us,) = self.read("SELECT hourly_from_us FROM ett_v_retention")["hourly_from_us"]
        if pd.notna(horizon_us) and from_us < horizon_us:
            raise FrameError(
                f"hours before {rfc3339(int(horizon_us))} were pruned",
                "Ask for days or weeks, from midnight to midnight (UTC), or for later hours.",
            )

    def summary(self, **question: Any) -> pd.DataFrame:
        """Return the same for the window as a whole; see ``Source.summary``."""
        return self.rollups(step=None, **question)

    def markers(self, *, begin: When = None, end: When = None) -> pd.DataFrame:
        """Return what was marked in the window, in order."""
        window = {"begin": _maybe_us(begin), "end": _maybe_us(end)}
        conditions = {
            "begin": "coalesce(end_us, at_us) >= :begin",
            "end": "at_us < :end",
        }
        chosen = [condition for name, condition in conditions.items() if window[name] is not None]
        chosen += _equal(self._own)
        frame = self.read(
            f"SELECT * FROM ett_v_markers{_where(chosen)} ORDER BY at_us, id",  # noqa: S608 -- ours
            **{name: us for name, us in window.items() if us is not None},
            **self._own,
        )
        return cast(frame, columns.MARKERS)

    def regressions(self, *, begin: When = None, end: When = None, **where: str) -> pd.DataFrame:
        """Return a row a finding; see ``Source.regressions``."""
        parameters = {**self._own, **checked(where)}
        edges = {"begin": _maybe_us(begin), "end": _maybe_us(end)}
        conditions = {
            "begin": "(state IN ('pending', 'firing')"
            " OR coalesce(resolved_us, last_run_us) >= :begin)",
            "end": "onset_us < :end",
        }
        chosen = [condition for name, condition in conditions.items() if edges[name] is not None]
        chosen += _equal(parameters) + ([] if "state" in where else ["state <> 'inactive'"])
        frame = self.read(
            f"SELECT * FROM ett_v_regressions{_where(chosen)}",  # noqa: S608 -- ours
            **{name: us for name, us in edges.items() if us is not None},
            **parameters,
        )
        return regressions_frame(frame.to_dict("records"))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as conn:
                yield conn
        except (SQLAlchemyError, DatabaseError) as error:
            cause = error.__cause__ or error  # pandas' own words repeat the statement
            raise FrameError(
                f"the database refused: {getattr(cause, 'orig', cause)}".partition("\n")[0],
                "Check that it has this version's schema, and that the role may read ett_v_*.",
            ) from error

    def _of_job(self, view: str, order: str, job: str) -> pd.DataFrame:
        """Return the rows of *job* in a view, by a column of it.

        Raises:
            FrameError: where there is no such job, or more than one project has it.
        """
        parameters = {"job": job, **self._own}
        where = _where(_equal(parameters))
        frame = self.read(f"SELECT * FROM {view}{where} ORDER BY {order}", **parameters)  # noqa: S608 -- ours
        projects = sorted(set(frame["project"]))
        if len(projects) > 1:
            raise FrameError(
                f"several projects have a job {job!r}: {', '.join(projects)}",
                "Name one: connect(..., project=...).",
            )
        if frame.empty and self.read(f"SELECT 1 FROM ett_v_jobs{where}", **parameters).empty:  # noqa: S608 -- ours
            raise FrameError(f"there is no job {job!r}", "`jobs()` lists them.")
        return frame


def _engine(address: str) -> Engine:
    try:
        url = make_url(address)
    except ArgumentError:
        raise FrameError(
            "this is not a database address",
            "Name sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE.",
        ) from None
    if url.get_backend_name() == "sqlite":
        return create_engine(_read_only(url))
    return create_engine(url, execution_options={"postgresql_readonly": True})


def _read_only(url: URL) -> URL:
    path = Path(url.database or "")
    if not path.is_file():
        raise FrameError(f"there is no database at {path}", "`ett serve` and `ett demo` make one.")
    query: Mapping[str, str] = {"mode": "ro", "uri": "true"}
    return url.set(database=path.absolute().as_uri(), query=query)


def _equal(names: Iterable[str]) -> list[str]:
    return [f"{name} = :{name}" for name in names]


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _hours(begin: When, end: When) -> tuple[datetime, datetime]:
    """Return the window as the server understands it: full hours, seven days by default."""
    last = _instant(end) or datetime.now(UTC)
    to = last if (last - _EPOCH) % _HOUR == timedelta(0) else last + _HOUR - (last - _EPOCH) % _HOUR
    first = _instant(begin)
    return (to - timedelta(days=7) if first is None else first - (first - _EPOCH) % _HOUR), to


def _instant(when: When) -> datetime | None:
    if when is None:
        return None
    if isinstance(when, str) and len(when) == _DAY_LENGTH:
        when = f"{when}T00:00:00Z"
    instant = datetime.fromisoformat(when) if isinstance(when, str) else when
    if instant.tzinfo is None:
        raise FrameError(f"{when} has no zone", "Name it: datetime(..., tzinfo=UTC).")
    return instant.astimezone(UTC)


def _maybe_us(when: When) -> int | None:
    instant = _instant(when)
    return None if instant is None else _us(instant)


def _us(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)
