"""Pages of metrics, read back by the parsers of prometheus_client and by promtool."""

import subprocess
from collections.abc import Mapping

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from ett_service.metrics.families import END, TextFormat
from ett_service.storage.metrics import counters as storage
from tests.builders.servers.programs import needed

Labels = tuple[tuple[str, str], ...]
Page = dict[str, dict[Labels, float]]


def families(page: str, form: TextFormat = TextFormat.PLAIN) -> list[Metric]:
    """Parse a page; in OpenMetrics a part of one, which needs no end."""
    if form is TextFormat.PLAIN:
        return list(plain_families(page))
    return list(open_families(page if page.endswith(END) else page + END))  # type: ignore[no-untyped-call]


def parsed(page: str, form: TextFormat = TextFormat.PLAIN) -> Page:
    """Parse a page; each of its samples must come once."""
    page_samples: Page = {}
    for family in families(page, form):
        for sample in family.samples:
            samples = page_samples.setdefault(sample.name, {})
            labels = labelled(**sample.labels)
            assert labels not in samples
            samples[labels] = sample.value
    return page_samples


def published(
    marks: Mapping[storage.Labels, storage.HighWaterMarks] | None = None,
    gauges: Mapping[str, storage.GaugeSamples] | None = None,
    exemplars: Mapping[storage.Labels, Mapping[str, storage.Exemplar]] | None = None,
) -> storage.PublishedMetrics:
    """Build what was published as if it were read."""
    return storage.PublishedMetrics(1, 1, marks or {}, exemplars or {}, gauges or {}, 0)


def labelled(**labels: str) -> Labels:
    """Build the labels of a sample."""
    return tuple(sorted(labels.items()))


def lint(page: bytes) -> str:
    """Return the output of promtool for a page in the plain format."""
    command = [needed("promtool", "prometheus"), "check", "metrics"]
    checked = subprocess.run(command, input=page, capture_output=True, check=False)
    output = checked.stdout.decode() + checked.stderr.decode()
    assert checked.returncode in (0, 3), output
    return output
