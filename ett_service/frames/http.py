"""Frames from a server, over HTTP with a key."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pandas as pd

from ett_service.core.words import Category, Owner
from ett_service.frames import columns
from ett_service.frames.columns import typed
from ett_service.frames.decisions import Deciding
from ett_service.frames.source import Answer, When, checked, flattened, regressions_frame, window

_PAGE = 1000
_MOST_EVENTS = 10_000
_MOST_GROUPS = 10_000


class HttpSource(Deciding):
    """A server of the service, and a key that may read it."""

    def jobs(self, **where: str) -> pd.DataFrame:
        """Return a row a job, in the order of their names."""
        rows = self.pages("/v1/jobs", "jobs", limit=_PAGE, sort="job", **where)
        return typed(rows, columns.JOBS)

    def attempts(self, job: str) -> pd.DataFrame:
        """Return a row an attempt of *job*, in order."""
        answers = self.ask(_path(job))["attempts"]
        rows = [
            {
                **attempt,
                "job": job,
                "seconds": sum(attempt["categories"].values()),
                "effective_training_seconds": attempt["categories"].get("effective_training", 0.0),
            }
            for attempt in answers
        ]
        return typed(rows, columns.ATTEMPTS)

    def ledger(self, job: str) -> pd.DataFrame:
        """Return a row a category: seconds, and their share of E2E."""
        return ledger_frame(self.ask(_path(job))["categories"])

    def waits(self, job: str) -> pd.DataFrame:
        """Return what *job* waited by part and owner: the queue, and periods, each in seconds."""
        rows = [
            {"part": part, "owner": owner, "seconds": seconds}
            for part, owners in self.ask(_path(job))["waits"].items()
            for owner, seconds in owners.items()
        ]
        return waits_frame(rows)

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
        """Return the events of *job*, in order: a column for every member that occurs."""
        frame = pd.DataFrame(self.pages(f"{_path(job)}/events", "events", limit=_MOST_EVENTS))
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

    def summary(self, **question: Any) -> pd.DataFrame:
        """Return the same for the window as a whole; see ``Source.summary``."""
        return self.rollups(step=None, **question)

    def markers(self, *, begin: When = None, end: When = None) -> pd.DataFrame:
        """Return what was marked in the window, in order."""
        pages = self.pages("/v1/markers", "markers", limit=_PAGE, **window(begin, end))
        rows = [{**marker, "end_at": marker["end"]} for marker in pages]
        return typed(rows[::-1], columns.MARKERS)

    def regressions(self, *, begin: When = None, end: When = None, **where: str) -> pd.DataFrame:
        """Return a row a finding; see ``Source.regressions``."""
        query = {**checked(where), **window(begin, end)}
        pages = self.pages("/v1/regressions", "regressions", limit=_PAGE, **query)
        return regressions_frame(map(flattened, pages))


def ledger_frame(seconds: Mapping[str, float]) -> pd.DataFrame:
    """Return seconds by category as a frame, with their shares; all zero for an empty E2E."""
    us = {category: round(seconds.get(category, 0.0) * 1e6) for category in Category}
    e2e_us = sum(us.values())
    rows = [
        {
            "category": category,
            "seconds": category_us / 1e6,
            "ratio": category_us / e2e_us if e2e_us else 0.0,
        }
        for category, category_us in us.items()
    ]
    return typed(rows, columns.LEDGER)


_OF_OWNERS = {
    "owners": "wait_seconds",
    "weighted_owners": "wait_weighted_seconds",
    "queue_owners": "queue_seconds",
}


def waits_frame(rows: Iterable[Mapping[Any, Any]]) -> pd.DataFrame:
    """Return waits as a frame, by part and owner."""
    return typed(rows, columns.WAITS).sort_values(["part", "owner"], ignore_index=True)


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
        **{
            f"{owner}_{name}": group[member][owner]
            for member, name in _OF_OWNERS.items()
            for owner in Owner
        },
    }
