"""The notice of a regression, in no format yet, the test message, and who receives them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    Impact,
    Metric,
    Series,
    Side,
    Subject,
    Suspect,
    Verdict,
)
from ett_service.storage.regressions import findings

MOST_EXAMPLES = 2
MOST_LINK = 1_000
"""Longer links are left out: they would take the room of what they explain."""

RUNBOOK = "/docs/runbooks/ettregressionactive.md"

OF_SETTINGS = 0
"""The owner of receivers that the settings name; they are notified of every project."""

JSON = "application/json; charset=utf-8"

_TEXT_LENGTHS = (300, 100, 40, 15)


class Status(StrEnum):
    """Whether the regression goes on."""

    FIRING = auto()
    RESOLVED = auto()


@dataclass(frozen=True, slots=True)
class Notice:
    """One version of one regression, and everything that a message about it may say."""

    project_id: int
    project: str
    id: str  #: of the regression
    fingerprint: str  #: of its series: stays when it comes back
    version: int  #: grows with every change that receivers are notified of
    status: Status
    severity: str
    starts_us: int  #: when it began to fire
    ends_us: int | None  #: None while it fires
    finding: Finding
    attribution: Attribution = field(default_factory=lambda: Attribution({}, {}))
    public_url: str = ""  #: where people reach the server; without it there are no links
    is_test: bool = False  #: a made-up regression, sent to try a receiver
    remark: str = ""  #: a sentence on why it is sent, or why it is over

    @property
    def cohort(self) -> Mapping[str, str]:
        """Dimensions and their values; none for the whole project."""
        return dict(self.finding.series.cohort)

    @property
    def link(self) -> str:
        """Where the regression is explained."""
        return self._address("regressions", self.id)

    @property
    def runbook(self) -> str:
        """Where the server has its runbook."""
        return f"{self.public_url.rstrip('/')}{RUNBOOK}" if self.public_url else ""

    @property
    def examples(self) -> tuple[tuple[str, int, str], ...]:
        """Up to two attempts that show it: job, number and link."""
        return tuple(
            (job, number, self._address("jobs", job))
            for job, number in self.attribution.examples[:MOST_EXAMPLES]
        )

    def _address(self, kind: str, name: str) -> str:
        """Return the address of a page."""
        if not self.public_url:
            return ""
        path = f"/{kind}/{_quoted(name)}?project={_quoted(self.project)}"
        address = f"{self.public_url.rstrip('/')}{path}"
        return address if len(address) <= MOST_LINK else ""


def to_json(notice: Notice) -> str:
    """Write *notice* as the outbox keeps it."""
    return findings.to_json(notice)


def from_json(text: str) -> Notice:
    """Read what ``to_json`` wrote.

    Raises:
        ValueError: *text* is something else.
    """
    return msgspec.json.decode(text, type=Notice, strict=False)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


_SERIES = Series(
    Subject(Metric.PHASE_SECONDS, "pt2_compile"), (("cluster", "example"), ("model", "example"))
)
_BEFORE_US, _AFTER_US = 486 * SECOND_US, 804 * SECOND_US


def test_message(project_id: int, project: str, public_url: str, now_us: int) -> Notice:
    """Return a made-up regression of *now_us*, marked as a test."""
    onset_us = now_us - 11 * DAY_US
    before = Side(140, 28, _BEFORE_US, 702 * SECOND_US, onset_us - 28 * DAY_US, onset_us)
    after = Side(68, 11, _AFTER_US, 1_010 * SECOND_US, onset_us, now_us)
    finding = Finding(
        series=_SERIES,
        verdict=Verdict.REGRESSION,
        ratio=_AFTER_US / _BEFORE_US,
        low=1.48,
        high=1.84,
        p=3.1e-9,
        q=1e-7,
        onset_us=onset_us,
        before=before,
        after=after,
        gates=(),
        impact=Impact(gpu_hours_per_week=212.0, ett_points=-0.6),
    )
    suspect = Suspect("image", "trainer:example", 0.97, 66, onset_us)
    attribution = Attribution(
        phase_shares={"pt2_compile": 1.0},
        cohort_shares={},
        suspects=(suspect,),
        examples=(("example-1", 0), ("example-2", 0)),
    )
    return Notice(
        project_id=project_id,
        project=project,
        id="test",
        fingerprint=_SERIES.fingerprint,
        version=1,
        status=Status.FIRING,
        severity="low",
        starts_us=now_us,
        ends_us=None,
        finding=finding,
        attribution=attribution,
        public_url=public_url,
        is_test=True,
    )


class Secret(Enum):
    """What the secret of a receiver is for."""

    SIGNING_KEY = auto()  #: made by the API, and rotated
    ROUTING_KEY = auto()  #: given by the vendor; part of the body, which is not signed
    OPTIONAL = auto()  #: signs where the settings name one


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver. Its address is a secret as well: that of Slack and its like lets anybody post."""

    owner: int  #: project, or ``OF_SETTINGS``
    name: str
    url: str = field(repr=False)
    format: "WebhookFormat"
    secrets: tuple[str, ...] = field(default=(), repr=False)  #: all sign, the newest first
    where: Mapping[str, str] = field(default_factory=dict)  #: project or dimensions to notify of


Render: TypeAlias = Callable[[Notice, Receiver, int], Any]
"""From a notice, its receiver and the longest text of a name to a body, as JSON can hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFormat:
    """How one kind of receiver reads a notice."""

    name: str
    render: Render
    place: int = 100  #: in lists of formats; those of one place come by name
    secret: Secret = Secret.OPTIONAL
    repeats: bool = False  #: such receivers forget a firing notice unless it is repeated
    content_type: str = JSON
    most_bytes: int = 20_000  #: of a body


def render(notice: Notice, receiver: Receiver) -> bytes:
    """Return the body for *receiver*; names are cut where it would be too long otherwise."""
    body = b""
    for length in _TEXT_LENGTHS:
        body = msgspec.json.encode(receiver.format.render(notice, receiver, length))
        if len(body) <= receiver.format.most_bytes:
            break
    return body
