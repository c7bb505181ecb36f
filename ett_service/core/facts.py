"""Facts about the job: of each member the latest, then the larger value."""

from collections.abc import Iterable
from dataclasses import fields

from ett_service.core.answer import Facts
from ett_service.core.event import JobFacts

_MEMBERS = tuple(member.name for member in fields(Facts) if member.name != "labels")


def facts(events: Iterable[tuple[int, JobFacts]]) -> Facts:
    """Return what the ``job`` events, given with their instants, say in the end."""
    told: dict[str, tuple[int, str | int]] = {}
    labels: dict[str, tuple[int, str]] = {}
    for at, event in events:
        for name in _MEMBERS:
            value = getattr(event, name)
            if value is not None:
                told[name] = max((at, value), told.get(name, (at, value)))
        for key, text in event.labels.items():
            labels[key] = max((at, text), labels.get(key, (at, text)))
    return Facts(
        **{name: value for name, (_, value) in told.items()},  # type: ignore[arg-type]
        labels={key: labels[key][1] for key in sorted(labels)},
    )
