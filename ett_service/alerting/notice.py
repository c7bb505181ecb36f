"""What a receiver is told of a regression, in no receiver's format yet.

The outbox keeps it as JSON; it is rendered when it is sent. Instants are microseconds since the
Unix epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from urllib.parse import quote

import msgspec

from ett_service.core.regression import Attribution, Finding
from ett_service.storage import finding_text

MOST_EXAMPLES = 2
MOST_LINK = 1_000
"""A longer address is left out: it would take the room of what it explains."""

RUNBOOK = "/docs/runbooks/ettregressionactive.md"


class Status(StrEnum):
    """Whether it goes on."""

    FIRING = auto()
    RESOLVED = auto()


@dataclass(frozen=True, slots=True)
class Notice:
    """One state of one regression, and everything that a message about it may say."""

    project_id: int
    project: str
    id: str  #: of the regression
    fingerprint: str  #: of its series: stays when it comes back
    version: int  #: grows with every change that receivers are told of
    status: Status
    severity: str
    starts_us: int  #: when it began to fire
    ends_us: int | None  #: None while it fires
    finding: Finding
    attribution: Attribution = field(default_factory=lambda: Attribution({}, {}))
    public_url: str = ""  #: where people reach the server; without it there are no links
    is_test: bool = False  #: nothing happened: somebody tries a receiver

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
        """Where it is told what to do, where the docs are served beside the server."""
        return f"{self.public_url.rstrip('/')}{RUNBOOK}" if self.public_url else ""

    @property
    def examples(self) -> tuple[tuple[str, int, str], ...]:
        """Two attempts that show it: job, number and link."""
        return tuple(
            (job, number, self._address("jobs", job, "/attempts"))
            for job, number in self.attribution.examples[:MOST_EXAMPLES]
        )

    def _address(self, kind: str, name: str, part: str = "") -> str:
        if not self.public_url:
            return ""
        path = f"/v1/{kind}/{_quoted(name)}{part}?project={_quoted(self.project)}"
        found = f"{self.public_url.rstrip('/')}{path}"
        return found if len(found) <= MOST_LINK else ""


def to_json(notice: Notice) -> str:
    """Write *notice* as the outbox keeps it."""
    return finding_text.encode(notice)


def from_json(text: str) -> Notice:
    """Read what ``to_json`` wrote.

    Raises:
        ValueError: It is something else.
    """
    return msgspec.json.decode(text, type=Notice, strict=False)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")
