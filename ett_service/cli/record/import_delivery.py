"""Sends imported runs: several in a request, each of them whole or not at all."""

import json
import time
import uuid
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import islice
from typing import Any

import msgspec

from ett_service.cli.remote import ask, exchange, refusal
from ett_service.cli.verb import Failure, now_us
from ett_service.client.sending.transport import Response
from ett_service.importers.importer import Fact, ImportedRun, names_cluster
from ett_service.ingest.decode import Batch, decode
from ett_service.ingest.refusals import Code
from ett_service.ingest.wire import Limits

_BATCH = 500
_PART = 5_000  #: events are checked so many at a time, whatever the size of their run
_PATIENCE_S = 600.0
_LONGEST_PAUSE_S = 30.0
_MOST_LAUNCHES = 10_000
_MOST_NAMES = 1000
_BY_ID = "slurm-{}"
_BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)

_OTHER_CLUSTER = (
    "launch {} of job {} is recorded of another cluster: tell the jobs of each apart, "
    "by --name '{{cluster}}-{{name}}' or by ett.job"
)

_UNBOUNDED = 1 << 40
_LIMITS = Limits(_UNBOUNDED, _UNBOUNDED, _UNBOUNDED)
_JSON_BODY = {"content-type": "application/json"}


@dataclass(slots=True)
class Tally:
    """What became of the runs that were read, and of their events."""

    jobs: dict[str, None] = field(default_factory=dict)  #: names, in order of appearance
    runs: int = 0
    events: int = 0
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    codes: Counter[str] = field(default_factory=Counter)  #: why events were rejected
    refused: list[str] = field(default_factory=list)  #: ``path:line: why``, runs not sent
    broken: dict[str, str] = field(default_factory=dict)  #: job: why a part of it is missing
    launches: dict[str, str] = field(default_factory=dict)  #: the job of each, of the latest

    def take(self, run: ImportedRun) -> bool:
        """Count a run; False where the service would refuse a part of it, so that none is sent."""
        self.events += len(run.facts)
        errors = _refusals(run)
        self.rejected += len(errors)
        self.codes.update(code for _, code, _ in errors)
        if errors:
            fact, code, pointer = errors[0]
            self.refused.append(_reason(run, fact, code, pointer))
            return False
        self.runs += 1
        self.jobs[run.job] = None
        if run.facts and (launch := run.facts[0].event.get("launch")):
            self.launches[launch] = run.job
            if len(self.launches) > _MOST_LAUNCHES:
                del self.launches[next(iter(self.launches))]
        return True

    def turn_away(self, run: ImportedRun, fact: Fact) -> None:
        """Note that the server has the run's launch of another cluster, and took nothing of it."""
        why = _OTHER_CLUSTER.format(fact.event.get("launch", ""), run.job)
        reason = f"{run.path}:{fact.line}: {why}"
        if self.refused[-1:] != [reason]:  # its events lie side by side
            self.refused.append(reason)
            self.runs -= 1

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON has them."""
        return {
            "jobs": list(self.jobs),
            "runs": self.runs,
            "events": self.events,
            "accepted": self.accepted,
            "duplicate": self.duplicate,
            "rejected": self.rejected,
            "codes": dict(self.codes.most_common()),
            "refused_runs": self.refused,
            "broken_jobs": self.broken,
        }


def decoded(run: ImportedRun) -> Iterator[tuple[Sequence[Fact], Batch]]:
    """Read a run's events as the service does, a part after the other."""
    for start in range(0, len(run.facts), _PART):
        facts = run.facts[start : start + _PART]
        body = _written({"events": [fact.event for fact in facts], "history": True})
        yield facts, decode(body, _JSON_BODY, now_us=now_us(), limits=_LIMITS)


def _written(body: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # a lone surrogate, which JSON can hold and UTF-8 cannot
        return json.dumps(body).encode()


def _refusals(run: ImportedRun) -> list[tuple[Fact, str, str]]:
    """Return what the service refuses of a run by its own rules, before any of it is sent."""
    return [
        (facts[each.index or 0], each.code.value, each.pointer)
        for facts, batch in decoded(run)
        for each in batch.refusals
    ]


def _reason(run: ImportedRun, fact: Fact, code: str, pointer: str) -> str:
    member = pointer.split("/", 3)[-1] or "event"
    kind, at = fact.event["type"], fact.event["start" if member == "start" else "at"]
    return f"{run.path}:{fact.line}: {code} in {member} of a {kind} at {at}"


class Delivery:
    """Runs on their way to the server that *args* name; *tally* grows with its verdicts.

    Jobs of *history* move no Prometheus counter.
    """

    def __init__(self, args: Namespace, tally: Tally, *, history: bool = True) -> None:
        self._args = args
        self._history = history
        self._tally = tally
        self._waiting: list[tuple[ImportedRun, Fact]] = []
        self.begun: ImportedRun | None = None  #: the run of which a part was sent, and not all

    def take(self, run: ImportedRun) -> None:
        """Send a run, or keep it for the next full request.

        Raises:
            Failure: where the server takes no events, or none in ten minutes of trying.
        """
        if len(self._waiting) + len(run.facts) > _BATCH:
            self.finish()
        if len(run.facts) > _BATCH:
            self._send_alone(run)
        else:
            self._waiting += [(run, fact) for fact in run.facts]

    def finish(self) -> None:
        """Send what is kept. Raises what :meth:`take` does."""
        waiting, self._waiting = self._waiting, []
        self._send([each for each in waiting if self._is_whole(each[0])])

    def _send_alone(self, run: ImportedRun) -> None:
        """Send a large run in parts, each of which says of which cluster it is."""
        facts = iter(run.facts)
        clusters: list[Fact] = []
        while self._is_whole(run) and (part := list(islice(facts, _BATCH))):
            self._send([(run, fact) for fact in [*clusters, *part]])
            self.begun = run
            clusters += [fact for fact in part if names_cluster(fact.event)]
        self.begun = None

    def _is_whole(self, run: ImportedRun) -> bool:
        return run.job not in self._tally.broken

    def _send(self, waiting: Sequence[tuple[ImportedRun, Fact]]) -> None:
        if not waiting:
            return
        events = [fact.event for _, fact in waiting]
        body = {"batch_id": str(uuid.uuid4()), "history": self._history, "events": events}
        verdict = _verdict(post(self._args, body), self._args, len(events))
        tally = self._tally
        tally.accepted += verdict["accepted"]
        tally.duplicate += verdict["duplicate"]
        tally.rejected += verdict["rejected"]
        tally.codes.update(error["code"] for error in verdict["errors"])
        for error in verdict["errors"]:
            run, fact = waiting[error["index"]]
            if error["code"] == Code.OTHER_CLUSTER:
                tally.turn_away(run, fact)
                continue
            reason = _reason(run, fact, error["code"], error["pointer"])
            tally.broken.setdefault(run.job, reason)


def told_twice(args: Namespace, launches: Mapping[str, str]) -> str:
    """Return what to do about a Slurm job that its trainer told under another name than *launches*.

    Trainers without a name of their own go by ``slurm-`` and the id. Empty where no such job is
    known, or where the key may not read.
    """
    try:
        answer = ask(args, "/v1/jobs", {"q": _BY_ID.format(""), "limit": _MOST_NAMES})
        names = {each["job"] for each in answer["jobs"]}
    except (Failure, TypeError, KeyError):
        return ""
    for launch, job in launches.items():
        name = _BY_ID.format(launch)
        if name in names and name != job:
            return (
                f"{name}, as its trainer calls it, and {job} are one job told twice: give trainers "
                "ETT_JOB=$SLURM_JOB_NAME, or name jobs here by --name 'slurm-{id}'"
            )
    return ""


def post(args: Namespace, body: Mapping[str, Any]) -> Response:
    """Post events, again and again while the server is busy, as late as it asks for.

    Raises:
        Failure: where it still is after ten minutes, or asks for more.
    """
    patience_s, pause_s = _PATIENCE_S, 1.0
    while True:
        response = exchange(args, "POST", "/v1/events", body)
        if response.status not in _BUSY:
            return response
        wait_s = retry_after_s(response, pause_s)
        if wait_s > patience_s:
            raise Failure(
                f"the server is busy (status {response.status}) and asks for {wait_s:.0f} s",
                "Import again later: events keep their ids, so nothing is counted twice.",
            )
        time.sleep(wait_s)
        patience_s -= wait_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def retry_after_s(response: Response, otherwise_s: float) -> float:
    """Return the seconds that ``Retry-After`` asks for, as a number or as a date."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_us() / 1e6)
    except ValueError:
        return otherwise_s


def _verdict(response: Response, args: Namespace, events: int) -> dict[str, Any]:
    """Return the counts and errors of a response, also where every event was refused."""
    try:
        answer = json.loads(response.body)
        if response.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            errors = _of_events(answer["errors"])
            if len(errors) == events:
                return {"accepted": 0, "duplicate": 0, "rejected": events, "errors": errors}
        elif response.status == HTTPStatus.OK:
            counts = {name: int(answer[name]) for name in ("accepted", "duplicate", "rejected")}
            return {**counts, "errors": _of_events(answer["errors"])}
    except (ValueError, KeyError, TypeError):
        if response.status < HTTPStatus.BAD_REQUEST:
            raise Failure(
                "the answer is not from an ett server",
                "Check --url and ETT_URL. Importing again is safe: events keep their ids.",
            ) from None
    raise refusal(response, args)


def _of_events(errors: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [error for error in errors if isinstance(error["index"], int)]
