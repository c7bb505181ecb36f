"""The page that documents the metrics names all of them, and its queries are good PromQL."""

import re
import subprocess
from pathlib import Path

from ett_service.metrics.families import COUNTERS, GAUGES, OF_THE_LIBRARY, OWN
from tests.builders.servers.programs import needed

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
RULES = PAGE.parents[1] / "dashboards" / "rules" / "recording.yaml"
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([^|]*)\| \S.*\|$", re.MULTILINE)
_QUERY = re.compile(r"```promql\n(.*?)```", re.DOTALL)


def test_every_family_is_documented_with_its_kind_and_labels_and_no_other_is() -> None:
    rows = [
        (name, kind, tuple(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in _ROW.findall(PAGE.read_text())
    ]
    families = (*COUNTERS, *GAUGES, *OWN)
    assert rows == [(family.name, family.kind.value, family.labels) for family in families]


def test_what_the_library_adds_is_documented() -> None:
    page = PAGE.read_text()
    assert [name for name in OF_THE_LIBRARY if f"`{name}`" not in page] == []


def test_bounds_of_buckets_are_the_documented_ones() -> None:
    page = " ".join(PAGE.read_text().split())
    for bounds_us in {family.bounds_us for family in COUNTERS if family.bounds_us}:
        *most, last = (f"{bound_us / 1_000_000:g}" for bound_us in bounds_us)
        assert f"{', '.join(most)} and {last} s" in page


def test_what_queries_take_from_rules_is_recorded() -> None:
    recorded = re.findall(r"record: (\S+)", RULES.read_text())
    queries = "".join(_QUERY.findall(PAGE.read_text()))
    recorded_names = set(re.findall(r"\w+:\w+:\w+", queries))
    assert recorded_names
    assert recorded_names - set(recorded) == set()


def test_queries_are_good_promql(tmp_path: Path) -> None:
    promtool = needed("promtool", "prometheus")
    queries = _QUERY.findall(PAGE.read_text())
    rules = [
        f"  - record: documented:query:{number}\n    expr: |\n"
        + "".join(f"      {line}\n" for line in query.splitlines())
        for number, query in enumerate(queries)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text("groups:\n- name: documented\n  rules:\n" + "".join(rules))
    checked = subprocess.run(
        [promtool, "check", "rules", file], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert f"{len(queries)} rules found" in checked.stdout
