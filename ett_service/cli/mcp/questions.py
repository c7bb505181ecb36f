"""The questions that an assistant may ask, each answered from answers of the API that exist.

All of them read. An answer carries what it rests on: its window, the weight of a second, how many
jobs and attempts it is of, the version of the formulas, and the address of the whole answer.
"""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ett_service.cli.arguments import DEFAULT_URL, bound
from ett_service.cli.remote import PATIENT_S, ask, place, without_none
from ett_service.cli.verb import Failure

MOST_CHARACTERS = 200
MOST_ROWS = 20
MOST_MEMBERS = 50

Json = dict[str, Any]

BY_ACCELERATORS = "seconds x accelerators"
BY_WALL = "wall time"

_HOUR = 3600.0


def bounded(value: Any) -> Any:
    """Return JSON with every text and name printable and cut, and every list and object short.

    Job names, labels and messages are written by whoever may send events.
    """
    match value:
        case str():
            return _printable(value)
        case list():
            return [bounded(item) for item in value[:MOST_ROWS]]
        case dict():
            members = list(value.items())[:MOST_MEMBERS]
            return {_printable(str(name)): bounded(item) for name, item in members}
        case _:
            return value


def _printable(text: str) -> str:
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return shown if len(shown) <= MOST_CHARACTERS else shown[: MOST_CHARACTERS - 1] + "…"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the API, and where it is."""

    body: Json
    link: str


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """A server, and the key that may read it."""

    args: Namespace  #: ``url``, ``key`` and ``project``

    def get(self, path: str, query: Mapping[str, object]) -> Reply:
        """Return the answer to a GET; see :func:`ett_service.cli.remote.ask` for its errors."""
        parameters = without_none({"project": self.args.project, **query})
        body = ask(self.args, path, parameters, timeout_s=PATIENT_S)
        written, address = (
            urlencode(parameters, doseq=True),
            (self.args.url or DEFAULT_URL).rstrip("/"),
        )
        return Reply(body, f"{address}{path}" + (f"?{written}" if written else ""))


def _answered(reply: Reply, answer: Json, *, window: Json, weight: str, n: Json) -> Json:
    basis = {
        "window": window,
        "weight": weight,
        "n": n,
        "formula_version": reply.body.get("formula_version"),
        "link": reply.link,
    }
    # A link is ours, and longer than a text of an event may be.
    return {"answer": bounded(answer), "basis": {**bounded(basis), "link": reply.link}}


@dataclass(frozen=True, slots=True)
class Window:
    """A window as it is asked for; what is None is left to the server."""

    begin: str | None = None
    end: str | None = None


def _when(text: str | None) -> str | None:
    """Read an instant, or how long ago it was, as the command line does.

    Raises:
        Failure: where it is neither.
    """
    try:
        return None if text is None else bound(text)
    except ArgumentTypeError as error:
        raise Failure(str(error), "Write 2026-03-01T00:00:00Z, or 7d for seven days ago.") from None


def where_did_the_gpu_hours_go(
    server: ServerAccess, window: Window, by: Sequence[str], where: Sequence[str]
) -> Json:
    """Return where the fleet's accelerators spent a window, in all and by group."""
    query = {**_bounds(window), "where": list(where), "group_by": ",".join(by) or None}
    reply = server.get("/v1/fleet/summary", {**query, "sort": "lost", "limit": MOST_ROWS})
    body, total = reply.body, reply.body["total"]
    answer = {
        **_headline(total),
        "gpu_hours_by_category": _hours(total["gpu_categories"]),
        "accelerator_hours_waited_by_owner": _hours(total["weighted_owners"]),
        "hours_queued_by_owner": _hours(total["queue_owners"]),
        "failures": {name: total["failures"][name] for name in ("total", "infra")},
        "failures_by_cause": (total["failures"]["by"] or [])[:MOST_ROWS],
        "cost": total["cost"]["total"],
        "currency": total["cost"]["currency"],
        "groups": [
            {"group": group["group"], "other": group["other"], **_headline(group)}
            for group in body["groups"]
        ],
        "groups_not_listed": body["group_count"] - len(body["groups"]),
    }
    n = {
        "jobs": total["jobs"],
        "attempts": total["attempts"],
        "jobs_without_accelerators": total["jobs_without_accelerators"],
    }
    return _answered(reply, answer, window=_of(body), weight=BY_ACCELERATORS, n=n)


def _headline(group: Json) -> Json:
    effective = group["gpu_categories"].get("effective_training", 0.0)
    return {
        "jobs": group["jobs"],
        "ett_ratio": group["ett_ratio"] if group["weighted_seconds"] else None,
        "gpu_hours": group["gpu_seconds"] / _HOUR,
        "lost_gpu_hours": (group["gpu_seconds"] - effective) / _HOUR,
    }


def _hours(seconds: Mapping[str, float]) -> Json:
    """Return hours, the most first, without what is nothing."""
    largest_first = sorted(seconds.items(), key=lambda item: -item[1])
    return {name: length / _HOUR for name, length in largest_first if length}


def _bounds(window: Window) -> Json:
    return {"from": _when(window.begin), "to": _when(window.end)}


def _of(body: Json) -> Json:
    return {"from": body["from"], "to": body["to"]}


def why_did_it_change(
    server: ServerAccess,
    window: Window,
    base: Window,
    by: Sequence[str],
    where: Sequence[str],
    *,
    owners: bool,
) -> Json:
    """Return the parts of the change of ETT% from a base window, the largest first."""
    query = {
        **_bounds(window),
        **{f"base_{name}": at for name, at in _bounds(base).items()},
        "group_by": ",".join(by),
        "where": list(where),
        "split": "owner" if owners else None,
        "limit": MOST_ROWS,
    }
    reply = server.get("/v1/fleet/explain", query)
    body = reply.body
    members = ("comparable", "change_points", "mix_points", "within_points", "within", "rest")
    answer = {
        "ett_ratio": body["current"]["ett_ratio"],
        "base_ett_ratio": body["base"]["ett_ratio"],
        **{name: body[name] for name in members},
        "parts": body["parts"],
    }
    windows = {**_of(body["current"]), "base": _of(body["base"])}
    n = {"jobs": body["current"]["jobs"], "base_jobs": body["base"]["jobs"]}
    return _answered(reply, answer, window=windows, weight=BY_ACCELERATORS, n=n)


def what_to_fix_first(
    server: ServerAccess, window: Window, where: Sequence[str], scenarios: Sequence[str]
) -> Json:
    """Return what scenarios would have gained, the most first, and what fires, by its cause too."""
    query = {**_bounds(window), "where": list(where), "scenario": list(scenarios)}
    reply = server.get("/v1/what-if", query)
    body = reply.body
    firing = server.get(
        "/v1/regressions",
        {
            "where": list(where),
            "verdict": "regression",
            "state": "firing",
            "without_noise": "true",
            "sort": "-gpu_hours_per_week",
            "limit": MOST_ROWS,
        },
    )
    causes = server.get("/v1/regressions/causes", {"where": list(where)}).body
    answer = {
        "before": body["before"],
        "gains": [_gain(gain) for gain in body["gains"]],
        "note": body["note"],
        "currency": body["currency"],
        "confidence": body["confidence"],
        "causes_of_firing_regressions": [_cause(cause) for cause in causes["causes"]],
        "cost_of_firing_regressions_each_once": causes["total"],
        "firing_regressions": [_regression(row) for row in firing.body["regressions"]],
    }
    n = {
        "jobs": body["jobs"],
        "jobs_read": body["jobs_read"],
        "jobs_without_accelerators": body["jobs_without_accelerators"],
    }
    return _answered(reply, answer, window=_of(body), weight=BY_ACCELERATORS, n=n)


def _gain(gain: Json) -> Json:
    members = ("scenarios", "points", "points_interval", "gpu_hours", "money", "failures", "jobs")
    return {name: gain[name] for name in (*members, "assumptions")}


def _cause(cause: Json) -> Json:
    members = ("project", "dimension", "value", "metric", "phase", "cost", "cohorts", "findings")
    return {name: cause[name] for name in members}


def _regression(row: Json) -> Json:
    members = ("id", "project", "metric", "phase", "stage", "cause", "cohort", "severity", "ratio")
    return {**{name: row[name] for name in members}, "impact": row["impact"]}


def what_happened_to_the_job(server: ServerAccess, job: str, project: str | None) -> Json:
    """Return a job's results, its attempts and recoveries, and what they rest on."""
    named = {} if project is None else {"project": project}
    reply = server.get(place("/v1/jobs/{}", job), named)
    body = reply.body
    facts = ("job", "name", "state", "provisional", "outcome", "team", "model", "cluster", "gpus")
    numbers = (
        "ett_ratio",
        "e2e_seconds",
        "queue_wait_seconds",
        "time_to_start_seconds",
        "failures",
        "infra_failures",
        "unsaved_training_seconds",
        "wasted_ratio",
        "waits",
    )
    answer = {
        **{name: body[name] for name in (*facts, *numbers)},
        "seconds_by_category": {name: us for name, us in body["categories"].items() if us},
        "attempts": [_attempt(attempt) for attempt in body["attempts"][-MOST_ROWS:]],
        "attempts_not_listed": max(0, len(body["attempts"]) - MOST_ROWS),
        "longest_recoveries": _longest(body["recoveries"]),
        "quality": {**body["quality"], "gaps": body["quality"]["gaps"][:5]},
    }
    window = {"from": body["started_at"], "to": body["ended_at"], "as_of": body["as_of"]}
    n = {"attempts": len(body["attempts"]), "recoveries": len(body["recoveries"])}
    return _answered(reply, answer, window=window, weight=BY_WALL, n=n)


def _attempt(attempt: Json) -> Json:
    members = ("number", "outcome", "origin", "cause", "evidence", "reason", "started_at")
    more = ("ended_at", "gpus", "last_step", "unsaved_training_seconds")
    return {name: attempt[name] for name in (*members, *more)}


def _longest(recoveries: Sequence[Json]) -> list[Json]:
    members = ("interrupted", "resumed", "started_at", "seconds", "outcome", "parts", "owners")
    longest_first = sorted(recoveries, key=lambda recovery: -recovery["seconds"])
    return [{name: recovery[name] for name in members} for recovery in longest_first[:5]]


def which_jobs(server: ServerAccess, text: str | None, state: str | None, team: str | None) -> Json:
    """Return the jobs that began last, by a part of their name, their state and their team."""
    query = {"q": text, "state": state, "team": team, "sort": "-started_at", "limit": MOST_ROWS}
    reply = server.get("/v1/jobs", query)
    members = ("job", "state", "team", "model", "gpus", "started_at", "ended_at", "ett_ratio")
    rows = [{name: row[name] for name in (*members, "failures")} for row in reply.body["jobs"]]
    versions = {row["formula_version"] for row in reply.body["jobs"]}
    answered = Reply({"formula_version": max(versions, default=None)}, reply.link)
    started = [row["started_at"] for row in rows if row["started_at"]]
    window = {"from": min(started, default=None), "to": max(started, default=None)}
    more = reply.body["next_cursor"] is not None
    answer = {"jobs": rows, "there_are_more": more}
    return _answered(answered, answer, window=window, weight=BY_WALL, n={"jobs": len(rows)})
