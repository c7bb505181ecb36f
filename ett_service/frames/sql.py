"""Frames from a database, through its public views ``ett_v_*`` and nothing else.

A role that may read the views suffices, and nothing is written: a transaction on PostgreSQL says
so, and SQLite's file is opened for reading.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.errors import DatabaseError
from sqlalchemy import URL, Connection, Engine, create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.core.words import Category
from ett_service.frames import columns
from ett_service.frames.columns import cast
from ett_service.frames.http import ledger_frame
from ett_service.frames.rollups import rolled_up
from ett_service.frames.source import FrameError, When, checked, found_frame

_FILTERS = frozenset({"project", *JOB_DIMENSIONS, "state"})
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
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
        daily = step != "1h" and all((edge - _EPOCH) % _DAY == timedelta(0) for edge in window)
        conditions = ["start_us >= :begin", "start_us < :end", *_equal(self._own)]
        view = f"ett_v_rollup_{'daily' if daily else 'hourly'}"
        frame = self.read(
            f"SELECT * FROM {view}{_where(conditions)}",  # noqa: S608 -- of two
            **dict(zip(("begin", "end"), map(_us, window), strict=True)),
            **self._own,
        )
        if exclusions == "left_out":
            frame = frame[~frame["excluded"].astype(bool)]
        return rolled_up(
            frame, step=step, group_by=group_by, where=where, first="day" if daily else "hour",
            window=window,
        )  # fmt: skip

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
        return found_frame(frame.to_dict("records"))

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
    return (to - 7 * _DAY if first is None else first - (first - _EPOCH) % _HOUR), to


def _instant(when: When) -> datetime | None:
    if when is None:
        return None
    instant = datetime.fromisoformat(when) if isinstance(when, str) else when
    if instant.tzinfo is None:
        raise FrameError(f"{when} has no zone", "Name it: datetime(..., tzinfo=UTC).")
    return instant.astimezone(UTC)


def _maybe_us(when: When) -> int | None:
    instant = _instant(when)
    return None if instant is None else _us(instant)


def _us(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)
