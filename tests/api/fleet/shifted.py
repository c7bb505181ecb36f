"""Jobs moved in time, and their sums taken by hand from the ledgers that the API answers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ett_service.core.intervals import rfc3339
from tests.builders.servers.application import Service

Json = Mapping[str, Any]
Window = tuple[str, str]


def shifted(events: Iterable[dict[str, Any]], minutes: float) -> list[dict[str, Any]]:
    """Move *events* by so many minutes."""
    return [
        {
            name: rfc3339(us(value) + round(minutes * 60_000_000))
            if name in ("at", "start")
            else value
            for name, value in event.items()
        }
        for event in events
    ]


def us(instant: str) -> int:
    """Read an instant into microseconds since the Unix epoch."""
    at = datetime.fromisoformat(instant)
    return int(at.timestamp()) * 1_000_000 + at.microsecond


@dataclass
class Part:
    """A segment of a job, of one category and period."""

    job: str
    start: int
    end: int
    category: str
    period: str
    gpus: int | None

    def inside(self, window: Window) -> int:
        """Return the microseconds of it that lie in the window."""
        return max(0, min(self.end, us(window[1])) - max(self.start, us(window[0])))


def parts_of(service: Service, *jobs: str, **query: Any) -> list[Part]:
    """Read the ledgers of jobs whose attempts all have the same accelerators."""
    parts = []
    for job in jobs:
        attempts = service.get(f"/v1/jobs/{job}", **query)["attempts"]
        (gpus,) = {attempt["gpus"] for attempt in attempts}
        for segment in service.get(f"/v1/jobs/{job}/ledger", **query)["segments"]:
            span = us(segment["start"]), us(segment["end"])
            parts.append(Part(job, *span, segment["category"], segment["period"], gpus))
    return parts


def assert_adds_up(group: Json, parts: Sequence[Part], window: Window) -> None:
    """Hold a group's answer to the parts of ledgers that lie in a window."""
    wall, weighted, periods = Counter[str](), Counter[str](), Counter[str]()
    for part in parts:
        wall[part.category] += part.inside(window)
        weighted[part.category] += part.inside(window) * (part.gpus or 0)
        periods[part.period] += part.inside(window)
    alive = {part.job for part in parts if part.inside(window)}
    unweighted = sum(part.inside(window) for part in parts if part.gpus is None)
    # The stories' accelerators are never held while a job waits to be started again.
    held = weighted - Counter({name: weighted[name] for name in ("scheduling", "restart_wait")})
    assert group["jobs"] == len(alive)
    assert _nonzero(group["categories"]) == _seconds(wall)
    assert _nonzero(group["weighted_categories"]) == _seconds(weighted)
    assert _nonzero(group["gpu_categories"]) == _seconds(held)
    assert _nonzero(group["periods"]) == _seconds(periods)
    assert group["e2e_seconds"] == wall.total() / 1e6
    assert group["weighted_seconds"] == weighted.total() / 1e6
    assert group["gpu_seconds"] == held.total() / 1e6
    assert group["unweighted_seconds"] == unweighted / 1e6
    effective = "effective_training"
    assert group["ett_ratio"] == _ratio(weighted[effective], weighted.total())
    assert group["ett_ratio_wall"] == _ratio(wall[effective], wall.total())
    lost = weighted.total() - weighted[effective]
    assert group["lost_weighted_seconds"] == lost / 1e6


def _nonzero(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: number for name, number in numbers.items() if number}


def _seconds(counted: Mapping[str, int]) -> dict[str, float]:
    return {name: amount / 1e6 for name, amount in counted.items() if amount}


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
