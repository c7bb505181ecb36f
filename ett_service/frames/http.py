"""Frames from a server, over HTTP with a key."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

import pandas as pd

from ett_service.client.transport import Unreachable, request
from ett_service.core.vocabulary import Category
from ett_service.frames import columns
from ett_service.frames.columns import typed
from ett_service.frames.decisions import (
    advice_frame,
    effects_frame,
    gains_frame,
    parts_frame,
)
from ett_service.frames.source import FrameError, When

_ANSWER_LIMIT = 1 << 30
_TIMEOUT_S = 120.0
_REFUSED = 400
_PAGE = 1000
_MOST_GROUPS = 10_000
_MOST_PARTS = 200
_MOST_CHANGES = 50

Answer = Mapping[str, Any]


class HttpSource:
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
        asked = {"project": self._project, **query}
        written = urlencode({k: v for k, v in asked.items() if v is not None}, doseq=True)
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
            raise _refusal(answer.body, answer.status)
        return json.loads(answer.body)

    def jobs(self, **where: str) -> pd.DataFrame:
        """Return a row a job, in the order of their names."""
        rows = self._pages("/v1/jobs", "jobs", limit=_PAGE, sort="job", **where)
        return typed(rows, columns.JOBS)

    def attempts(self, job: str) -> pd.DataFrame:
        """Return a row an attempt of *job*, in order."""
        found = self.ask(_path(job))["attempts"]
        rows = [
            {
                **attempt,
                "job": job,
                "seconds": sum(attempt["categories"].values()),
                "effective_training_seconds": attempt["categories"].get("effective_training", 0.0),
            }
            for attempt in found
        ]
        return typed(rows, columns.ATTEMPTS)

    def ledger(self, job: str) -> pd.DataFrame:
        """Return a row a category: seconds, and their share of E2E."""
        return ledger_frame(self.ask(_path(job))["categories"])

    def segments(self, job: str) -> pd.DataFrame:
        """Return the stretches that E2E of *job* is cut into, in order."""
        rows = [
            {
                **segment,
                "started_at": segment["start"],
                "ended_at": segment["end"],
                "seconds": segment["microseconds"] / 1e6,
            }
            for segment in self.ask(f"{_path(job)}/ledger")["segments"]
        ]
        return typed(rows, columns.SEGMENTS)

    def events(self, job: str) -> pd.DataFrame:
        """Return what was told about *job*, in order: a column for every member that occurs."""
        frame = pd.DataFrame(self._pages(f"{_path(job)}/events", "events", limit=10_000))
        for name in ("at", "start", "received_at"):
            if name in frame:
                frame[name] = columns.cast(frame, {name: columns.INSTANT})[name]
        return frame

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
        answer = self.ask(
            "/v1/fleet/series" if step else "/v1/fleet/summary",
            step=step,
            group_by=",".join(group_by) or None,
            where=list(where),
            exclusions=exclusions,
            distributions="false",
            limit=None if step else _MOST_GROUPS,
            **window(begin, end),
        )
        member = "points" if step else "groups" if group_by else "total"
        groups = [answer[member]] if member == "total" else answer[member]
        rows = [_rolled_up(group) for group in groups]
        return typed(rows, columns.rollup_columns(group_by, over_time=step is not None))

    def summary(self, **asked: Any) -> pd.DataFrame:
        """Return the same for the window as a whole; see ``Source.summary``."""
        return self.rollups(step=None, **asked)

    def markers(self, *, begin: When = None, end: When = None) -> pd.DataFrame:
        """Return what was marked in the window, in order."""
        pages = self._pages("/v1/markers", "markers", limit=_PAGE, **window(begin, end))
        rows = [{**marker, "end_at": marker["end"]} for marker in pages]
        return typed(rows[::-1], columns.MARKERS)

    def explain(
        self,
        *,
        group_by: Sequence[str] = ("model",),
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
        base_begin: When = None,
        base_end: When = None,
    ) -> pd.DataFrame:
        """Return the parts of the change from the base window, the largest first.

        ``change`` is of a ratio: -0.006 is 0.6 percentage points less. It sums to the whole
        change; ``part`` is a category or ``mix``, ``base`` and ``current`` what it moved between.
        """
        base = window(base_begin, base_end)
        answer = self.ask(
            "/v1/fleet/explain",
            group_by=",".join(group_by),
            where=list(where),
            base_from=base["from"],
            base_to=base["to"],
            limit=_MOST_PARTS,
            **window(begin, end),
        )
        return parts_frame(answer, group_by)

    def what_if(
        self,
        *scenarios: str,
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
    ) -> pd.DataFrame:
        """Return what each scenario would have gained, the most first; the gains do not add up.

        A scenario is a line such as ``cut pt2_compile by 40 %`` or ``halve infra failures``.
        """
        answer = self.ask(
            "/v1/what-if", scenario=list(scenarios), where=list(where), **window(begin, end)
        )
        return gains_frame(answer)

    def changes(
        self,
        *,
        kind: str | None = None,
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
    ) -> pd.DataFrame:
        """Return what is associated with each marker, the latest first: a row a measure.

        Differences are after minus before, with their bounds; what is not known is missing.
        """
        answer = self.ask(
            "/v1/fleet/changes",
            kind=kind,
            where=list(where),
            limit=_MOST_CHANGES,
            **window(begin, end),
        )
        return effects_frame(answer)

    def checkpoint_advice(
        self,
        *,
        group_by: Sequence[str] = (),
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
    ) -> pd.DataFrame:
        """Return how often each group should save, the most to gain first."""
        answer = self.ask(
            "/v1/fleet/checkpoint-advice",
            group_by=",".join(group_by) or None,
            where=list(where),
            **window(begin, end),
        )
        return advice_frame(answer, group_by)

    def _pages(self, path: str, member: str, **query: object) -> Iterator[Any]:
        cursor = None
        while True:
            page = self.ask(path, cursor=cursor, **query)
            yield from page[member]
            cursor = page["next_cursor"]
            if cursor is None:
                return


_JSON = {"Content-Type": "application/json"}


def ledger_frame(seconds: Mapping[str, float]) -> pd.DataFrame:
    """Return seconds by category as a frame, with their shares; all zero for an empty E2E."""
    us = {category: round(seconds.get(category, 0.0) * 1e6) for category in Category}
    e2e_us = sum(us.values())
    rows = [
        {"category": category, "seconds": one / 1e6, "ratio": one / e2e_us if e2e_us else 0.0}
        for category, one in us.items()
    ]
    return typed(rows, columns.LEDGER)


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


def _path(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"


def _rolled_up(group: Answer) -> dict[str, Any]:
    """Flatten a group of the fleet's answers into the columns of a rollup."""
    return {
        **group["group"],
        "start_at": group.get("start"),
        **{name: group[name] for name in columns.ROLLUPS if name in group},
        "failures": group["failures"]["total"],
        "infra_failures": group["failures"]["infra"],
        **{f"{name}_seconds": group["categories"].get(name, 0.0) for name in Category},
        **{
            f"{name}_weighted_seconds": group["weighted_categories"].get(name, 0.0)
            for name in Category
        },
    }


def _refusal(body: bytes, status: int) -> FrameError:
    try:
        problem = json.loads(body)
        faults = [f"{fault['pointer']}: {fault['code']}." for fault in problem.get("errors", ())]
        said = " ".join(filter(None, [f"{problem['title']}.", problem.get("detail"), *faults]))
    except (ValueError, KeyError, TypeError, AttributeError):
        said = f"the server answered with status {status}"
    return FrameError(said, "Is the key one that may read this? `ett keys list` shows them.")
