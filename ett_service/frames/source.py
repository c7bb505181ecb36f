"""What a source of frames answers, and how a server is asked."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import urlencode

import pandas as pd

from ett_service.client.sending.transport import Response, Unreachable, request
from ett_service.core.errors import EttError
from ett_service.frames import columns
from ett_service.frames.columns import typed

When = str | datetime | None
"""An RFC 3339 text or a datetime, both with their zone, or a day: its first instant in UTC."""


class FrameError(EttError):
    """A frame cannot be had; the message says why, the hint what to try."""


class Source(Protocol):
    """Frames of one fleet. A frame without rows still has its columns."""

    def jobs(self, **where: str) -> pd.DataFrame:
        """Return a row a job; *where* holds dimensions of jobs and ``state``: ``team="a"``.

        Jobs come in the order of their names. A numeric summary of each job; its categories are
        in ``ledger``.
        """

    def attempts(self, job: str) -> pd.DataFrame:
        """Return a row an attempt of *job*, in order."""

    def ledger(self, job: str) -> pd.DataFrame:
        """Return a row a category: seconds, and their share of E2E, to which they sum."""

    def waits(self, job: str) -> pd.DataFrame:
        """Return what *job* waited by part and owner: the queue, and periods, each in seconds."""

    def segments(self, job: str) -> pd.DataFrame:
        """Return the stretches that E2E of *job* is cut into, in order."""

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
        """Return the fleet's sums by group and *step*: ``1h``, ``1d``, ``1w``, None for one sum.

        *begin* and *end* are widened to full hours; the default is the last seven days. *where*
        holds conditions as ``team:a``; of several values of one dimension each will do.
        """

    def summary(
        self,
        *,
        group_by: Sequence[str] = (),
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
        exclusions: str = "left_out",
    ) -> pd.DataFrame:
        """Return the same for the window as a whole: a row a group."""

    def markers(self, *, begin: When = None, end: When = None) -> pd.DataFrame:
        """Return what was marked in the window, in order."""

    def regressions(self, *, begin: When = None, end: When = None, **where: str) -> pd.DataFrame:
        """Return a row a finding, those that were found first first.

        Of the window are those that set in before its end and were not over before its begin;
        *where* as ``verdict="regression"``, also ``state metric phase``. What was pending and not
        found again is there only with ``state="inactive"``.
        """

    def close(self) -> None:
        """Let go of what is open."""


FILTERS = frozenset({"state", "verdict", "metric", "phase"})
"""What findings can be cut down to, each to one word."""

_FOUND_IN_ORDER = ["pending_at", "project", "id"]
_EMPTY_IS_NONE = ("phase", "stage", "cause", "currency")


def checked(where: Mapping[str, str]) -> Mapping[str, str]:
    """Pass filters that there are.

    Raises:
        FrameError: where there are others.
    """
    unknown = where.keys() - FILTERS
    if unknown:
        raise FrameError(
            f"regressions cannot be filtered by {', '.join(sorted(unknown))}",
            f"Filters: {', '.join(sorted(FILTERS))}.",
        )
    return where


def regressions_frame(rows: Iterable[Mapping[Any, Any]]) -> pd.DataFrame:
    """Return rows as the view has them as a frame, those that were found first first."""
    records = [{**row, **{name: row[name] or None for name in _EMPTY_IS_NONE}} for row in rows]
    return typed(records, columns.REGRESSIONS).sort_values(_FOUND_IN_ORDER, ignore_index=True)


def flattened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the API by the names of the view."""
    interval = row["interval"] or {"low": None, "high": None}
    return {
        **row,
        **row["impact"],
        "cohort": json.dumps(row["cohort"], ensure_ascii=False),
        "ratio_low": interval["low"],
        "ratio_high": interval["high"],
        **{
            f"{side}_{name}": row[side][name]
            for side in ("before", "after")
            for name in ("median", "n")
        },
    }


_ANSWER_LIMIT = 1 << 30
_TIMEOUT_S = 120.0
_REFUSED = 400
_NOT_ALLOWED = (401, 403, 404)  # what a key may not read is not found
_JSON = {"Content-Type": "application/json"}

Answer = Mapping[str, Any]


class ServerAnswers:
    """A server, asked anew for every frame. What is asked of it is bounded by its key."""

    def __init__(self, url: str, key: str | None, project: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._key = key
        self._project = project

    def close(self) -> None:
        """Do nothing: no connection is kept."""

    def ask(self, path: str, *, body: object = None, **query: object) -> Any:
        """Return the JSON answer to any request; with a *body* it is a POST.

        Raises:
            FrameError: where the server cannot be reached, or refuses.
        """
        parameters = {"project": self._project, **query}
        written = urlencode({k: v for k, v in parameters.items() if v is not None}, doseq=True)
        url = f"{self._url}{path}" + (f"?{written}" if written else "")
        sent = None if body is None else json.dumps(body).encode()
        method, headers = ("GET", {}) if sent is None else ("POST", _JSON)
        try:
            answer = request(
                method,
                url,
                self._key,
                sent,
                headers,
                timeout=_TIMEOUT_S,
                answer_limit=_ANSWER_LIMIT,
            )
        except Unreachable as error:
            raise FrameError(str(error), "Start one with `ett serve`.") from None
        if answer.status >= _REFUSED:
            raise _refusal(answer)
        return json.loads(answer.body)

    def pages(self, path: str, member: str, **query: object) -> Iterator[Any]:
        """Return the rows of every page of a list, of which *member* holds them."""
        cursor = None
        while True:
            page = self.ask(path, cursor=cursor, **query)
            yield from page[member]
            cursor = page["next_cursor"]
            if cursor is None:
                return


def window(begin: When, end: When) -> dict[str, object]:
    """Return a window as the API takes it.

    Raises:
        FrameError: where an instant has no zone.
    """
    return {"from": _instant(begin), "to": _instant(end)}


def _instant(when: When) -> str | None:
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise FrameError(f"{when} has no zone", "Name it: datetime(..., tzinfo=UTC).")
        return when.isoformat()
    return when


def _refusal(response: Response) -> FrameError:
    if response.status in _NOT_ALLOWED:
        hint = "Is the key one that may read this? `ett keys list` shows them."
        return FrameError(response.problem, hint)
    return FrameError(response.problem)
