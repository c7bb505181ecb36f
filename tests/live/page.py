"""What one scrape of a service says."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from ett_service.exposition.families import COUNTERS, GAUGES, Kind

Series: TypeAlias = tuple[str, frozenset[tuple[str, str]]]
"""The name of a sample and its labels."""


def read(url: str) -> dict[Series, float]:
    """Return every sample of the page at *url*."""
    text = httpx2.get(f"{url}/metrics", timeout=10).raise_for_status().text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def one(samples: Mapping[Series, float], name: str, **labels: str) -> float:
    """Return the sample of a name with exactly these labels; 0 where there is none."""
    return samples.get((name, frozenset(labels.items())), 0.0)


def counted() -> AbstractSet[str]:
    """Return the names of the samples of the fleet that never go down."""
    names = {family.name for family in COUNTERS if family.kind is Kind.COUNTER}
    for family in COUNTERS:
        if family.kind is Kind.HISTOGRAM:
            names |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
    return names


def of_the_fleet() -> AbstractSet[str]:
    """Return the names of the samples that every replica tells alike."""
    return counted() | {family.name for family in GAUGES}
