"""Pages of the past as blocks that a Prometheus reads."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dashboards.pictures.past import Page
from ett_service.core.intervals import SECOND_US
from tests.builders.servers.prometheus import Prometheus

RULES = Path(__file__).parents[1] / "rules" / "recording.yaml"

_SAMPLE = re.compile(
    r"(?P<name>\w+)"
    r'(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r" (?P<value>\S+)"
    r"(?: # .*)?"
)
Span = tuple[float, float, float]
"""The first instant, the last one and the step between two, in seconds."""

_LONGEST = "--max-block-duration=2000h"


def openmetrics(pages: Iterable[Page], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield one text of all *pages*, family by family, with *labels* on each sample.

    Exemplars and instants of creation stay out of it.
    """
    families: dict[str, list[str]] = {}
    more = _written(labels)
    for page in pages:
        stamp = f"{page.at_us // SECOND_US}"
        head = ""
        for line in (*_of_scrape(page), *page.text.splitlines()):
            if line.startswith("# TYPE "):
                head = line
                families.setdefault(head, [])
            elif not line.startswith("#"):
                families[head] += _stamped(line, more, stamp)
    for head, samples in families.items():
        yield f"{head}\n"
        yield from samples
    yield "# EOF\n"


def import_text(promtool: str, text: Iterable[str], to: Path) -> None:
    """Make blocks of OpenMetrics in the folder *to*."""
    file = to.parent / "past.om"
    with file.open("w", encoding="utf-8") as opened:
        opened.writelines(text)
    # What is run is our own words and what was found on the path.
    command = [promtool, "tsdb", "create-blocks-from", _LONGEST, "openmetrics", str(file), str(to)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"promtool made no blocks:\n{done.stderr[-2000:]}")
    file.unlink()


def levels(rules: Path = RULES) -> list[list[dict[str, Any]]]:
    """Return the recording rules, those first that read no other, then those that read these."""
    waiting = [
        rule
        for group in yaml.safe_load(rules.read_text("utf-8"))["groups"]
        for rule in group["rules"]
    ]
    complete = []
    while waiting:
        names = {rule["record"] for rule in waiting}
        level = [rule for rule in waiting if not names & set(_names(rule["expr"]))]
        if not level:
            raise ValueError(f"These rules read each other: {', '.join(sorted(names))}")
        waiting = [rule for rule in waiting if rule not in level]
        complete.append(level)
    return complete


def record(
    prometheus: Prometheus, rules: Iterable[Mapping[str, Any]], spans: Sequence[Span]
) -> str:
    """Evaluate *rules* over *spans*, and return what they say as OpenMetrics.

    `promtool tsdb create-blocks-from rules` does the same in a block for every two hours and rule,
    which takes an hour.
    """
    lines = []
    for rule in rules:
        for span in spans:
            for sample in prometheus.over(rule["expr"], *span):
                labels = {**sample.labels, **rule.get("labels", {})}
                labels.pop("__name__", None)
                series = f"{rule['record']}{{{_written(labels)}}}"
                lines += [f"{series} {value!r} {at:.0f}\n" for at, value in sample.points]
    return "".join([*lines, "# EOF\n"])


def _of_scrape(page: Page) -> Iterator[str]:
    """Yield the samples that Prometheus adds to a scrape."""
    samples = sum(not line.startswith("#") for line in page.text.splitlines())
    scrape = {
        "up": 1,
        "scrape_duration_seconds": page.took_s,
        "scrape_samples_scraped": samples,
    }
    for name, value in scrape.items():
        yield from (f"# TYPE {name} gauge", f"{name} {value}")


def _names(expression: str) -> list[str]:
    return re.findall(r"[a-zA-Z_][\w:]*:[\w:]*", expression)


def _stamped(sample: str, labels: str, stamp: str) -> Iterator[str]:
    match = _SAMPLE.fullmatch(sample)
    if match is None:
        raise ValueError(f"This is no sample: {sample}")
    if not match["name"].endswith("_created"):
        own = ",".join(part for part in (labels, match["labels"]) if part)
        yield f"{match['name']}{{{own}}} {match['value']} {stamp}\n"


def _written(labels: Mapping[str, str]) -> str:
    """Write labels; JSON escapes what OpenMetrics does, and no more."""
    return ",".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in labels.items()
    )
