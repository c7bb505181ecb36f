"""The application with its pages on a real port of this process, and browsers of it."""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from httpx2 import Client, Response

from ett_service.api.app import create_app
from ett_service.api.state import AppState, Notifications
from ett_service.fleet.economy import Economy, Price, Target
from ett_service.notifications.routing import Directory
from ett_service.pages.site import ROUTERS
from ett_service.storage.engine.seal import Keyring
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.keys import SCOPES, create_key
from ett_service.worker.ledgers import Worker
from tests.builders.clock import Clock
from tests.builders.servers.application import state_of
from tests.builders.servers.waiting import wait_for

PROJECT = "research"
ECONOMY = Economy(prices=(Price("H100", 0, Fraction(7, 2)),), targets=(Target({}, 0.9),))


@contextmanager
def served_from(
    migrated: Path, folder: Path, now_us: int, grafana_url: str = ""
) -> Iterator["Site"]:
    """Serve a copy in *folder* of the empty store *migrated*, as ``served`` does."""
    path = folder / "ett.db"
    shutil.copyfile(migrated, path)
    with (
        closing(open_store(f"sqlite:///{path}")) as store,
        served(store, now_us, grafana_url) as site,
    ):
        yield site


@dataclass
class Site:
    """A server, and what a test moves by hand."""

    state: AppState
    clock: Clock
    worker: Worker
    url: str = ""
    clients: list[Client] = field(default_factory=list)

    def key(self, scopes: Collection[str] = SCOPES, project: str = PROJECT) -> str:
        """Make a key."""
        return self.state.store.write(
            lambda conn: create_key(
                conn, project=project, name="test", scopes=scopes, now_us=self.clock.now_us
            )
        )

    def ingest(self, events: Sequence[Mapping[str, Any]], key: str = "") -> None:
        """Send events, which must be good, and let the worker do what there is to do."""
        sender = self.api(key)
        answer = sender.post("/v1/events", json={"events": list(events)})
        assert answer.status_code == 200, answer.text
        assert answer.json()["rejected"] == 0, answer.text
        while self.worker.run_once():
            pass

    def api(self, key: str = "") -> Client:
        """Return a client of the API, by default with a key for everything."""
        browser = self.visitor()
        browser.headers["Authorization"] = f"Bearer {key or self.key()}"
        return browser

    def visitor(self) -> Client:
        """Return a browser without JavaScript that is not signed in."""
        client = Client(base_url=self.url, timeout=60)
        self.clients.append(client)
        return client

    def reader(self, key: str = "") -> Client:
        """Return a browser that is signed in, by default with a key for everything."""
        browser = self.visitor()
        answer = browser.post("/sign-in", data={"key": key or self.key()})
        assert answer.status_code == 303, answer.text
        return browser


@contextmanager
def served(store: Store, now_us: int, grafana_url: str = "") -> Iterator[Site]:
    """Serve *store* with a clock that stands at *now_us*, until the end of the block."""
    clock = Clock(now_us)
    state = state_of(
        store,
        clock,
        economy=ECONOMY,
        notifications=Notifications(Directory(keyring=Keyring("k" * 32))),
        grafana_url=grafana_url,
    )
    assert isinstance(state.worker, Worker)
    site = Site(state, clock, state.worker)
    config = uvicorn.Config(
        create_app(lambda: nullcontext(state), ROUTERS), port=0, log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        site.url = f"http://127.0.0.1:{port}"
        yield site
    finally:
        for client in site.clients:
            client.close()
        state.stopping.set()
        server.should_exit = True
        thread.join()


@dataclass
class Element:
    """A tag with its attributes and the text inside of it."""

    tag: str
    attributes: dict[str, str]
    text: str = ""


@dataclass
class Document:
    """A page, as far as tests look into it."""

    elements: list[Element] = field(default_factory=list)

    @classmethod
    def of(cls, response: Response, status: int = 200) -> "Document":
        """Read a response, which must have this *status*."""
        assert response.status_code == status, response.text
        parser = _Parser()
        parser.feed(response.text)
        return cls(parser.elements)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Return the elements of a tag that have these attributes."""
        wanted = {name.rstrip("_"): text for name, text in attributes.items()}.items()
        return [
            each
            for each in self.elements
            if each.tag == tag and all(each.attributes.get(name) == text for name, text in wanted)
        ]

    def text_of(self, tag: str, **attributes: str) -> str:
        """Return the text of the one such element."""
        (only,) = self.all(tag, **attributes)
        return " ".join(only.text.split())

    @property
    def links(self) -> list[str]:
        """Where its links lead."""
        return [each.attributes["href"] for each in self.all("a")]

    @property
    def form_token(self) -> str:
        """What its forms carry."""
        return self.all("input", name="token")[0].attributes["value"]


_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take in a tag."""
        each = Element(tag, {name: text or "" for name, text in attrs})
        self.elements.append(each)
        if tag not in _VOID:
            self._open.append(each)

    def handle_endtag(self, tag: str) -> None:
        """Close a tag."""
        while self._open and self._open.pop().tag != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Add text to all tags that are open."""
        for each in self._open:
            each.text += data
