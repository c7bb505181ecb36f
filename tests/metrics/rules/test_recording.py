"""The recording rules build on each other as rates have to be taken."""

import re
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).parents[3] / "dashboards" / "rules"
RATED = re.compile(r"(?:rate|increase)\(\s*([a-zA-Z_:][\w:]*)")


def _rules(name: str) -> list[dict[str, Any]]:
    read = yaml.safe_load((RULES / name).read_text("utf-8"))
    return [rule for group in read["groups"] for rule in group["rules"]]


def test_no_rate_is_taken_of_a_sum() -> None:
    """Floats that are added in another order may sum to less, and a rate starts anew then."""
    recorded = {rule["record"]: rule["expr"] for rule in _rules("recording.yaml")}
    rules = [*_rules("recording.yaml"), *_rules("alerts.yaml")]
    rated = {name for rule in rules for name in RATED.findall(rule["expr"])}
    assert rated & set(recorded)
    assert [name for name in sorted(rated & set(recorded)) if "sum" in recorded[name]] == []
