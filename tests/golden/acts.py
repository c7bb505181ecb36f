"""How the recorded fleet comes about: loaded, corrected, searched, notified and acted upon."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builders.servers.waiting import wait_for
from tests.golden import fleet
from tests.golden.receiver import Message, receiving
from tests.golden.requests import FAILED
from tests.golden.server import FORMATS, Answer, Server, ett, serving, write_settings

DAYS = 3  #: of the demo's fleet
SCOPES = ("write", "read", "fleet", "admin")

_FIRING = 2  #: regressions that receivers are notified of; one of them is accepted
_DRAWN = ("mute", "other_mute")
_SEARCHES_NOTHING = json.dumps({"enabled": False})
_PUBLISHES_ONCE = json.dumps({"every_seconds": 3600.0, "jobs": ["live-*"]})

_NAMES = {
    ("regression", "llm-slow"): "regression",
    ("regression", "llm-fresh"): "accepted",
    ("regression", "llm-mended"): "resolved",
    ("improvement", "llm-quick"): "improvement",
}


@dataclass(frozen=True)
class Act:
    """A request that writes, and what was answered."""

    request: str
    answer: Answer

    @property
    def content(self) -> Any:
        """What the answer says, if it says anything."""
        return self.answer.json if self.answer.body else None


@dataclass(frozen=True)
class Stage:
    """A server on which everything has happened, and what happened."""

    server: Server
    demo: Any  #: what `ett demo` says of its fleet
    acts: list[Act]
    messages: list[Message]
    ids: dict[str, str]  #: of findings and the like, by what requests call them
    drawn: dict[str, str]  #: ids that differ from run to run, and what is recorded instead


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """Make the fleet in *folder*, which is not there yet, and serve it until the block ends."""
    folder.mkdir()
    loaded = ett(folder, "demo", "--no-serve", "--json", f"--days={DAYS}", f"--directory={folder}")
    demo = {"printed": json.loads(loaded), "truth": json.loads((folder / "truth.json").read_text())}
    acts: list[Act] = []
    with receiving() as receiver:
        write_settings(folder, receiver.url)
        scopes = [f"--scope={scope}" for scope in SCOPES]
        printed = ett(
            folder, "keys", "create", "--project=research", "--name=golden", "--json", *scopes
        )
        key = json.loads(printed)["key"]
        with serving(folder, key, ETT_DETECTION=_SEARCHES_NOTHING) as server:
            acts += _load(server)
        with serving(folder, key, ETT_METRICS=_PUBLISHES_ONCE) as server:
            ids = _findings(server)
            _wait_for_messages(server, _FIRING)
            acts += _answer(server, ids)
            _wait_for_messages(server, _FIRING + 1)
            before = _publication(server)
        with serving(folder, key, ETT_METRICS=_PUBLISHES_ONCE) as server:
            wait_for(lambda: _publication(server) != before)
            ids["attempt"] = _attempt(server)
            prefixes = {key["name"]: key["prefix"] for key in server.read("/v1/keys")["keys"]}
            ids |= {"url": server.url, "key": prefixes["for a trainer"]}
            drawn = dict.fromkeys(prefixes.values(), "<key>")
            drawn |= {ids[name]: f"<{name}>" for name in _DRAWN}
            yield Stage(server, demo, acts, receiver.messages, ids, drawn)


def _load(server: Server) -> Iterator[Act]:
    act = _acting(server)
    yield act("POST /v1/events", {"events": fleet.recent(), "batch_id": "recent"})
    yield act("POST /v1/events", {"events": fleet.recent()[:3], "batch_id": "again"})
    yield act("POST /v1/events", {"events": []})
    other = {**fleet.BEAT, "at": "2026-03-08T02:00:00Z"}
    yield act("POST /v1/events", {"events": [fleet.BEAT, other], "batch_id": "conflict"})
    yield act("POST /v1/events", {"events": fleet.history(), "history": True, "batch_id": "past"})
    yield act("POST /v1/markers", fleet.MARKER)
    yield act("POST /v1/markers", fleet.MARKER)
    _wait_until_published(server)
    why = {"why": "The switch of rack 5 was replaced."}
    yield act(f"PUT {FAILED}/attempts/0/verdict", {"origin": "infra", "cause": "network", **why})
    yield act("PUT /v1/jobs/live-preempted/attempts/1/verdict", {"cause": "data", **why})
    _wait_until_published(server)  # the counter of that cause keeps what it once was
    yield act("DELETE /v1/jobs/live-preempted/attempts/1/verdict", None)
    window = {"from": "2026-03-08T12:00:00Z", "to": "2026-03-08T13:00:00Z"}
    yield act(f"PUT {FAILED}/exclusion", {**window, **why})
    yield act("PUT /v1/jobs/llm-quick-40-0/exclusion", why)
    yield act("PUT /v1/jobs/llm-quick-40-1/exclusion", why)
    yield act("DELETE /v1/jobs/llm-quick-40-1/exclusion", None)
    yield act("DELETE /v1/jobs/llm-quick-40-2?dry_run=true", None)
    yield act("DELETE /v1/jobs/llm-quick-40-2", None)
    yield act("POST /v1/what-if", {"scenarios": ["halve infra failures"]})
    server.settle()


def _findings(server: Server) -> dict[str, str]:
    """Wait for the search, and name what it found."""
    wait_for(lambda: server.read("/v1/regressions/power", limit=1, project="research")["runs"])
    wait_for(lambda: server.read("/v1/regressions/power", limit=1)["runs"])
    findings = server.read("/v1/regressions", limit=100)["regressions"]
    return {
        _NAMES[kind]: finding["id"]
        for finding in findings
        if (kind := (finding["verdict"], finding["cohort"].get("model"))) in _NAMES
    }


def _attempt(server: Server) -> str:
    """Return what exemplars call an attempt."""
    open_metrics = {"Accept": "application/openmetrics-text; version=1.0.0"}
    page = server.ask("GET", "/metrics", headers=open_metrics).body.decode()
    ids: list[str] = re.findall(r'attempt_id="(.*?)"', page)
    return min(ids)


def _answer(server: Server, ids: dict[str, str]) -> Iterator[Act]:
    """Do what people do about findings."""
    act = _acting(server, ids)
    why = {"why": "Trainer 4.2 misses the compile cache."}
    until = {"until": "2026-03-12T00:00:00Z"}
    yield act("POST /v1/regressions/{regression}/triage", {"verdict": "real", **why})
    yield act("POST /v1/regressions/{regression}/acknowledge", why)
    yield act("POST /v1/regressions/{accepted}/accept", why)
    mute = act("POST /v1/regressions/{improvement}/mute", {**until, **why})
    yield mute
    ids["other_mute"] = mute.content["id"]
    mute = act("POST /v1/regressions/mutes", {"cohort": {"cluster": "elm"}, **until, **why})
    yield mute
    ids["mute"] = mute.content["id"]
    yield act("DELETE /v1/regressions/mutes/{mute}", None)
    yield act("POST /v1/receivers/generic/test", None)


def _acting(server: Server, ids: dict[str, str] | None = None) -> Callable[[str, Any], Act]:
    def act(request: str, body: Any) -> Act:
        method, path = request.format(**ids or {}).split(" ")
        return Act(request, server.ask(method, path, body=body))

    return act


def _wait_for_messages(server: Server, count: int) -> None:
    """Wait until each receiver was sent so many messages, and no other waits."""
    wait_for(lambda: all(_has_messages(server, name, count) for name in FORMATS))


def _has_messages(server: Server, name: str, count: int) -> bool:
    states = _states(server, name)
    return len(states) >= count and "waiting" not in states


def _states(server: Server, name: str) -> list[str]:
    deliveries = server.read(f"/v1/receivers/{name}/deliveries")["deliveries"]
    return [delivery["state"] for delivery in deliveries]


def _wait_until_published(server: Server) -> None:
    """Wait until /metrics was worked out anew, twice: the first time may have begun before."""
    server.settle()
    for _ in range(2):
        before = _publication(server)
        wait_for(lambda before=before: _publication(server) != before)  # type: ignore[misc]


def _publication(server: Server) -> str:
    """Return how long the latest publication took, which no two have in common."""
    lines = server.ask("GET", "/metrics").body.decode().splitlines()
    return next(line for line in lines if line.startswith("ett_publish_duration_seconds "))
