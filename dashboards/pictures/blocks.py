"""Pages of the past as blocks that a Prometheus reads."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dashboards.pictures.past import Page
from ett_service.core.interval import SECOND_US

RULES = Path(__file__).parents[1] / "rules" / "recording.yaml"

_SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
_LONGEST = "--max-block-duration=2000h"
_UP = ("# TYPE up gauge", "up 1")


def openmetrics(pages: Iterable[Page], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield one text of all *pages*, family by family, with *labels* on each sample.

    Exemplars and instants of creation stay out of it.
    """
    families: dict[str, list[str]] = {}
    more = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
    for page in pages:
        stamp = f"{page.at_us // SECOND_US}"
        head = ""
        for line in (*_UP, *page.text.splitlines()):
            if line.startswith("# TYPE "):
                head = line
                families.setdefault(head, [])
            elif not line.startswith("#"):
                families[head] += _stamped(line.partition(" # ")[0], more, stamp)
    for head, samples in families.items():
        yield f"{head}\n"
        yield from samples
    yield "# EOF\n"


def import_pages(promtool: str, pages: Iterable[Page], labels: Mapping[str, str], to: Path) -> None:
    """Make blocks of *pages* in the folder *to*."""
    text = to.parent / "past.om"
    with text.open("w", encoding="utf-8") as file:
        file.writelines(openmetrics(pages, labels))
    _run(promtool, "openmetrics", _LONGEST, str(text), str(to))
    text.unlink()


def levels(rules: Path = RULES) -> list[list[dict[str, Any]]]:
    """Return the recording rules, those first that read no other, then those that read these."""
    waiting = [
        rule
        for group in yaml.safe_load(rules.read_text("utf-8"))["groups"]
        for rule in group["rules"]
    ]
    found = []
    while waiting:
        names = {rule["record"] for rule in waiting}
        level = [rule for rule in waiting if not names & set(_names(rule["expr"]))]
        if not level:
            raise ValueError(f"These rules read each other: {', '.join(sorted(names))}")
        waiting = [rule for rule in waiting if rule not in level]
        found.append(level)
    return found


def record(
    promtool: str,
    url: str,
    rules: Sequence[Mapping[str, Any]],
    span: tuple[int, int, int],
    to: Path,
) -> None:
    """Make blocks of what *rules* say of the Prometheus at *url*.

    *span* is the first instant, the last one and the step between two, in seconds.
    """
    begin, end, step = span
    file = to.parent / "level.yaml"
    file.write_text(json.dumps({"groups": [{"name": "level", "rules": list(rules)}]}), "utf-8")
    asked = [f"--url={url}", f"--start={begin}", f"--end={end}", f"--eval-interval={step}s"]
    _run(promtool, "rules", *asked, f"--output-dir={to}", str(file))


def _names(expression: str) -> list[str]:
    return re.findall(r"[a-zA-Z_][\w:]*:[\w:]*", expression)


def _stamped(sample: str, labels: str, stamp: str) -> Iterator[str]:
    found = _SAMPLE.match(sample)
    if found is None:
        raise ValueError(f"This is no sample: {sample}")
    if not found["name"].endswith("_created"):
        own = ",".join(part for part in (labels, found["labels"]) if part)
        yield f"{found['name']}{{{own}}} {found['value']} {stamp}\n"


def _run(promtool: str, source: str, *arguments: str) -> None:
    # What is run is our own words and what was found on the path.
    command = [promtool, "tsdb", "create-blocks-from", source, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"promtool made no blocks from {source}:\n{done.stderr[-2000:]}")
