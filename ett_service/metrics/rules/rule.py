"""A rule for Prometheus, and the objective: how much ineffective time is allowed, how fast.

The objective of a web server leaves an error budget of a thousandth, and its alerts use burn rates
of 14 and 6. A budget of a tenth burns at most ten times too fast, and at about 1 in normal
operation. So factors have to lie between the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from ett_service.core.errors import EttError

BUDGET_DAYS = 30
LEAST_GPU_HOURS = 10
"""A window with less accelerator time fires no alert."""

_HOURS = {"m": Fraction(1, 60), "h": Fraction(1), "d": Fraction(24)}


class BadObjective(EttError):
    """An objective whose alerts could never fire, or would never stop."""


@dataclass(frozen=True, slots=True)
class Burn:
    """One alert: the budget burns ``factor`` times too fast, in a long window and a short one.

    The long window says that it matters, the short one that it still goes on. ``wait`` is how long
    both must hold. If nothing ran before, the long window says no more than the short one: with
    ``filled`` its usage has to be at least one part in so many of that of the short one.
    """

    name: str
    severity: str
    factor: Fraction
    long: str
    short: str
    wait: str
    filled: int | None = None

    @property
    def long_hours(self) -> Fraction:
        """Length of the long window."""
        return int(self.long[:-1]) * _HOURS[self.long[-1]]

    @property
    def budget_share(self) -> Fraction:
        """The share of the whole budget that is used after burning so for the long window."""
        return self.factor * self.long_hours / (BUDGET_DAYS * 24)


@dataclass(frozen=True, slots=True)
class Objective:
    """The least ETT% over 30 days, weighted by accelerators, and the alerts on its budget.

    Raises BadObjective where that makes no sense.
    """

    target: Fraction = Fraction(9, 10)
    fast: Fraction = Fraction(3)
    slow: Fraction = Fraction(13, 10)

    def __post_init__(self) -> None:
        """Refuse what could never fire, or never stop."""
        if not 0 < self.target < 1:
            raise BadObjective(
                f"a target of {decimal(self.target)} leaves no budget", "Name a ratio, such as 0.9."
            )
        for burn in self.burns:
            self._check(burn)
        if self.slow >= self.fast:
            raise BadObjective(
                f"the slow factor, {decimal(self.slow)}, is not below the fast one, "
                f"{decimal(self.fast)}",
                "The slow alert is for what the fast one misses.",
            )

    @property
    def budget(self) -> Fraction:
        """The ratio of accelerator time that may be ineffective."""
        return 1 - self.target

    @property
    def burns(self) -> Sequence[Burn]:
        """The alerts, the most urgent first."""
        return (
            Burn("EttBudgetBurnFast", "page", self.fast, "6h", "30m", "15m", filled=8),
            Burn("EttBudgetBurnSlow", "ticket", self.slow, "3d", "6h", "3h"),
        )

    def fires_at(self, burn: Burn) -> Fraction:
        """Return the ratio of ineffective time above which *burn* fires."""
        return burn.factor * self.budget

    def _check(self, burn: Burn) -> None:
        if burn.factor <= 1:
            raise BadObjective(
                f"{burn.name} would fire at {decimal(burn.factor)} times the budget, which is "
                "where a fleet on target is",
                "Name a factor above 1.",
            )
        if self.fires_at(burn) >= 1:
            most = 1 / self.budget
            raise BadObjective(
                f"{burn.name} could never fire: {decimal(burn.factor)} times a budget of "
                f"{percent(self.budget)} is {percent(self.fires_at(burn))} of all time",
                f"At this target the factor must be below {decimal(most)}; "
                f"at this factor the target must be above {percent(1 - 1 / burn.factor)}.",
            )


def decimal(number: Fraction) -> str:
    """Return *number* as a decimal, rounded to six digits: ``0.3``."""
    return f"{float(number):.6g}"


def percent(ratio: Fraction) -> str:
    """Return *ratio* in percent: ``13%``."""
    return f"{float(ratio * 100):.4g}%"


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
                **links.annotations(self.runbook, self.dashboard),
            },
        }


@dataclass(frozen=True, slots=True)
class Links:
    """The targets of links in annotations; empty for no links."""

    runbooks: str = ""
    dashboards: str = ""

    def annotations(self, runbook: str, dashboard: str) -> dict[str, str]:
        """Return the links to a runbook and to a dashboard, as far as there are any."""
        links = {
            "runbook_url": self.runbooks and f"{self.runbooks.rstrip('/')}/{runbook}",
            "dashboard_url": self.dashboards and self.dashboards.rstrip("/") + dashboard,
        }
        return {name: url for name, url in links.items() if url}


COMPOSE = Links("http://localhost:8080/docs/runbooks", "http://localhost:3000")
"""Where ``docker compose`` serves them: the links of the rules that come with it."""


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
