"""The dashboards' queries of Prometheus name what exists, use it rightly, and cover all metrics."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from dashboards.build import PACKS
from dashboards.build.kit import Dashboard, Panel, Query, Source, VariableKind
from dashboards.build.prometheus.promql import clusters, own, whole
from dashboards.build.variables import filled, variables_in
from ett_service.metrics import families
from ett_service.metrics.families import Family, Kind
from tests.builders.servers.programs import needed
from tests.dashboards.selectors import FOLLOWING, Selector, selectors

DASHBOARDS = [
    dashboard
    for pack in PACKS
    for dashboard in pack.dashboards
    if dashboard.source is Source.PROMETHEUS
]
PANELS = [(dashboard, panel) for dashboard in DASHBOARDS for panel in dashboard.panels]
RULES = Path(__file__).parents[2] / "dashboards" / "rules" / "recording.yaml"

OF_PROMETHEUS = {"up", "scrape_duration_seconds", "scrape_samples_scraped"}
"""The series that Prometheus itself adds to a scrape."""

IN_WORDS = {timedelta(days=1): "day", timedelta(days=7): "7 days"}
GRAFANAS = {"__rate_interval", "__interval"}


def _samples(described: Iterable[Family]) -> dict[str, bool]:
    """Return the name of every sample of *described*, and whether it only counts up."""
    return {
        f"{family.name}{ending}": family.kind in {Kind.COUNTER, Kind.HISTOGRAM}
        for family in described
        for ending in (("_bucket", "_count", "_sum") if family.kind is Kind.HISTOGRAM else ("",))
    }


def _recorded() -> dict[str, bool]:
    """Return the name of every recorded series, and whether it only counts up."""
    names = {}
    for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]:
        for record in (rule["record"] for rule in group["rules"] if "record" in rule):
            _, metric, operation = record.split(":")
            names[record] = operation in {"max", "sum"} and bool(
                re.search(r"_(total|bucket|count|sum)$", metric)
            )
    return names


OWN = {
    **_samples(families.OWN),
    **{name: name.endswith("_total") for name in (*families.OF_THE_LIBRARY, *OF_PROMETHEUS)},
}
SAMPLES = {**_samples((*families.COUNTERS, *families.GAUGES)), **OWN, **_recorded()}


def faults(dashboard: Dashboard, panel: Panel) -> Iterator[str]:
    """Yield what is wrong with the queries of a panel."""
    declared = GRAFANAS | {variable.name for variable in dashboard.variables}
    takes_all = False
    for query in panel.queries:
        if not variables_in(query.text) <= declared:
            yield f"a variable is not there: {query.text}"
        in_query = selectors(query.text)
        takes_all |= any("instance" not in selector.matchers for selector in in_query)
        for selector in in_query:
            yield from _selector_faults(selector)
        yield from _unexplained_windows(panel, query, in_query)
        if query.exemplars and not any(selector.name.startswith("ett_") for selector in in_query):
            yield f"exemplars lie on no series of {query.text}"
    if takes_all != bool(panel.unmatched):
        yield "it takes all instances without saying why, or says so in vain"


def _selector_faults(selector: Selector) -> Iterator[str]:
    """Yield what is wrong with one selector."""
    if selector.name not in SAMPLES:
        yield f"there is no {selector.name}"
        return
    if SAMPLES[selector.name] != (selector.function in {"rate", "increase"}):
        yield f"{selector.name} is a counter without a rate, or no counter under one"
    if selector.matchers.get("job") != "$job":
        yield f"{selector.name} is taken of every service there is"
    if selector.matchers.get("instance") not in {None, "$instance"}:
        yield f"{selector.name} is taken of one instance"
    if selector.name not in OWN and ":" not in selector.name and not selector.is_merged:
        yield f"{selector.name} is counted once for each replica"


def _unexplained_windows(panel: Panel, query: Query, in_query: list[Selector]) -> Iterator[str]:
    """Yield windows that neither follow the range nor stand in the words of the panel."""
    windows = {selector.window for selector in in_query} - {None, FOLLOWING}
    if any(selector.name.endswith("1d") for selector in in_query):
        windows.add(timedelta(days=1))
    words = f"{panel.title} {panel.description}"
    if not all(IN_WORDS.get(window, "?") in words for window in windows if window):
        yield f"{panel.title!r} does not say of how long it is"
    if windows and not query.instant and "before each point" not in words:
        yield f"{panel.title!r} does not say that points look back"


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_every_query_asks_rightly_for_what_there_is(dashboard: Dashboard) -> None:
    by_title = {panel.title: list(faults(dashboard, panel)) for panel in dashboard.panels}
    assert {title: wrong for title, wrong in by_title.items() if wrong} == {}


COUNTER = clusters("ett_failures_total")
GAUGE = clusters("ett_attempts_running")
UNKNOWN_VARIABLE = clusters("ett_failures_total", 'origin="$owner"')
OWN_UP = own("up")
SOUND = Panel(
    title="Failures, last day",
    description="Of the day before each point.",
    unit="short",
    queries=(Query(f"sum (max without (instance, pod) (rate({COUNTER}[1d])))"),),
    unmatched="All tell the same.",
)


@pytest.mark.parametrize(
    "text",
    [
        f"sum (max without (instance, pod) ({COUNTER}))",
        f"sum (max without (instance, pod) (rate({GAUGE}[1d])))",
        f"sum (max without (instance, pod) (delta({COUNTER}[1d])))",
        f"sum (rate({COUNTER}[1d]))",
        f"sum (max without (instance) (rate({COUNTER}[1d])))",
        f"max without (instance, pod) (sum without (cause) (rate({COUNTER}[1d])))",
        f"sum (max without (instance, pod) (rate({COUNTER}[7d])))",
        f"sum (max without (instance, pod) (rate({whole('ett_crashes_total')}[1d])))",
        "sum (max without (instance, pod) (rate(ett_failures_total[1d])))",
        f"sum (max without (instance, pod) (rate({UNKNOWN_VARIABLE}[1d])))",
        f"sum (rate({whole('cluster_origin_cause:ett_failures_total:min')}[1d]))",
    ],
)
def test_a_query_that_asks_wrongly_would_be_seen(text: str) -> None:
    assert list(faults(DASHBOARDS[0], SOUND)) == []
    assert list(faults(DASHBOARDS[0], replace(SOUND, queries=(Query(text),)))) != []


def test_exemplars_of_a_recorded_series_would_be_seen_to_be_none() -> None:
    recorded = f"sum (rate({clusters('cluster_origin_cause:ett_failures_total:max')}[1d]))"
    (scraped,) = SOUND.queries
    traced = replace(scraped, exemplars=True)
    assert list(faults(DASHBOARDS[0], replace(SOUND, queries=(traced,)))) == []
    traced = Query(recorded, exemplars=True)
    assert list(faults(DASHBOARDS[0], replace(SOUND, queries=(traced,)))) != []


def test_an_exception_without_a_reason_or_a_need_would_be_seen() -> None:
    own = Query(f"max ({OWN_UP})", instant=True)
    matched = replace(SOUND, queries=(own,), unmatched="")
    service = DASHBOARDS[-1]
    assert list(faults(service, matched)) == []
    assert list(faults(service, replace(matched, unmatched="All."))) != []
    assert list(faults(DASHBOARDS[0], replace(SOUND, unmatched=""))) != []


def test_what_readers_choose_from_is_there() -> None:
    queries = [
        variable.query
        for dashboard in DASHBOARDS
        for variable in dashboard.variables
        if variable.kind is VariableKind.QUERY
    ]
    matches = [re.fullmatch(r"label_values\((.+), (\w+)\)", query) for query in queries]
    names = {selector.name for hit in matches if hit for selector in selectors(hit[1])}
    assert None not in matches
    assert names <= SAMPLES.keys()


def test_annotations_query_names_that_exist() -> None:
    queries = {annotation.query for dashboard in DASHBOARDS for annotation in dashboard.annotations}
    names = {selector.name for query in queries for selector in selectors(query)}
    assert names
    assert names <= SAMPLES.keys()


def test_prometheus_reads_every_query(tmp_path: Path) -> None:
    promtool = needed("promtool", "prometheus")
    rules = [
        {
            "record": f"panel_{at}_{number}",
            "expr": filled(query.text, dict.fromkeys(variables_in(query.text), "5m")),
        }
        for at, (_, panel) in enumerate(PANELS)
        for number, query in enumerate(panel.queries)
    ]
    path = tmp_path / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=none", path], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"{len(rules)} rules found" in done.stdout
