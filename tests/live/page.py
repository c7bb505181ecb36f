"""What one scrape of a service says."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from ett_service.client.sending.transport import request
from ett_service.metrics.families import COUNTERS, GAUGES, Kind

_MOST_BYTES = 1 << 24


def read(url: str) -> dict[str, float]:
    """Return every sample of the page at *url*, by its name and labels as they stand there."""
    answer = request("GET", f"{url}/metrics", answer_limit=_MOST_BYTES)
    assert answer.status == 200, answer.body
    lines = answer.body.decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {series: float(value) for series, _, value in samples}


def of(samples: Mapping[str, float], names: AbstractSet[str]) -> dict[str, float]:
    """Return the samples of these names."""
    return {series: value for series, value in samples.items() if series.partition("{")[0] in names}


def counted() -> AbstractSet[str]:
    """Return the names of the samples of the fleet that never go down."""
    names = {family.name for family in COUNTERS if family.kind is Kind.COUNTER}
    for family in COUNTERS:
        if family.kind is Kind.HISTOGRAM:
            names |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
    return names


def shared_samples() -> AbstractSet[str]:
    """Return the names of the samples that are the same on every replica."""
    return counted() | {family.name for family in GAUGES}
