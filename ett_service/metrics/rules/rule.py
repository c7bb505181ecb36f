"""Rules as data, before they are written as YAML."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ett_service.core.errors import EttError

Plain: TypeAlias = "str | int | float | bool | Sequence[Plain] | dict[str, Plain]"
"""What YAML can hold."""

_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


class BadScale(EttError):
    """A scale that does not divide a duration to whole milliseconds."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The divisor of every duration of the rules, for a fleet whose clock runs faster."""

    by: int = 1

    def text(self, duration: str) -> str:
        """Return *duration*, such as ``6h``, as Prometheus reads it."""
        left = self._ms(duration)
        parts = []
        for unit, size in _MS.items():
            count, left = divmod(left, size)
            if count:
                parts.append(f"{count}{unit}")
        return "".join(parts)

    def seconds(self, duration: str) -> str:
        """Return *duration* as a number of seconds."""
        return f"{self._ms(duration) / 1000:g}"

    def _ms(self, duration: str) -> int:
        whole = int(duration[:-1]) * _MS[duration[-1]]
        if self.by < 1 or whole % self.by:
            raise BadScale(f"{duration} cannot be divided by {self.by}", "Try a divisor of 300.")
        return whole // self.by


@dataclass(frozen=True, slots=True)
class Recording:
    """An expression whose value is recorded under a name: ``level:metric:operations``."""

    record: str
    expr: str

    def plain(self) -> dict[str, Plain]:
        """Return the rule as a rule file has it."""
        return {"record": self.record, "expr": self.expr}


@dataclass(frozen=True, slots=True)
class Alert:
    """An expression that fires while it has a value.

    ``wait`` is how long it must hold first, ``hold`` how long the alert goes on afterwards; both
    are unscaled durations, and empty for none. ``dashboard`` is a path below Grafana.
    """

    alert: str
    expr: str
    severity: str
    summary: str
    description: str
    dashboard: str
    wait: str = ""
    hold: str = ""

    @property
    def runbook(self) -> str:
        """The name of its page in ``docs/runbooks``."""
        return f"{self.alert.lower()}.md"

    def plain(self, scale: Scale, links: "Links") -> dict[str, Plain]:
        """Return the rule as a rule file has it."""
        waits = {"for": self.wait, "keep_firing_for": self.hold}
        return {
            "alert": self.alert,
            "expr": self.expr,
            **{name: scale.text(duration) for name, duration in waits.items() if duration},
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{links.runbooks.rstrip('/')}/{self.runbook}",
                "dashboard_url": f"{links.dashboards.rstrip('/')}{self.dashboard}",
            },
        }


@dataclass(frozen=True, slots=True)
class Links:
    """The targets of links in annotations."""

    runbooks: str = "https://ett.example/docs/runbooks"
    dashboards: str = "http://localhost:3000"


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after another, at one instant."""

    name: str
    rules: Sequence[Recording | Alert]
    interval: str = "1m"

    def plain(self, scale: Scale, links: Links) -> dict[str, Plain]:
        """Return the rule as a rule file has it."""
        rules = [
            rule.plain() if isinstance(rule, Recording) else rule.plain(scale, links)
            for rule in self.rules
        ]
        return {"name": self.name, "interval": scale.text(self.interval), "rules": rules}
