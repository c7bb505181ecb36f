"""The metrics of a process about itself."""

import pytest

from ett_service.api.access import MOST_KEYS, OwnMetrics
from ett_service.api.load.admission import Admission
from ett_service.api.state import Capacities
from ett_service.metrics.families import OF_THE_LIBRARY, OWN, TextFormat
from tests.builders.clock import NOON, SECOND
from tests.builders.metrics import Page, families, labelled, lint, parsed


@pytest.fixture
def own() -> OwnMetrics:
    return OwnMetrics(
        version="1.2.3", revision="20260301", codes=["bad_id", "conflict"], now_us=NOON
    )


def _page(own: OwnMetrics) -> Page:
    return parsed(own.text(TextFormat.PLAIN).decode())


def test_every_source_and_code_is_shown_from_0_on(own: OwnMetrics) -> None:
    page = _page(own)
    sources = [labelled(source=name) for name in ("events", "import")]
    assert page["ett_ingest_events_total"] == dict.fromkeys(sources, 0)
    codes = [labelled(code=name) for name in ("bad_id", "conflict")]
    assert page["ett_ingest_events_rejected_total"] == dict.fromkeys(codes, 0)
    assert page["ett_ingest_events_duplicate_total"] == {(): 0}


def test_a_batch_counts_by_what_became_of_its_events(own: OwnMetrics) -> None:
    own.count_events(
        [NOON, NOON], duplicate=3, rejected=["bad_id", "bad_id"], now_us=NOON, history=False
    )
    own.count_events([NOON], duplicate=0, rejected=[], now_us=NOON, history=True)
    page = _page(own)
    assert page["ett_ingest_events_total"][labelled(source="events")] == 2
    assert page["ett_ingest_events_total"][labelled(source="import")] == 1
    assert page["ett_ingest_events_rejected_total"][labelled(code="bad_id")] == 2
    assert page["ett_ingest_events_duplicate_total"][()] == 3


def test_drops_are_those_that_senders_report_and_their_own_reasons_are_one(own: OwnMetrics) -> None:
    own.count_drops({"spool_full": 3})
    own.count_drops({"spool_full": 4, "\u00fcber": 1, "x" * 99: 1})
    drops = {"spool_full": 7, "spool_old": 0, "memory_full": 0, "unreadable": 0, "other": 2}
    assert _page(own)["ett_ingest_sender_drops_total"] == {
        labelled(reason=reason): count for reason, count in drops.items()
    }


def test_lag_is_that_of_live_events_and_never_below_0(own: OwnMetrics) -> None:
    live = [NOON - 20 * SECOND, NOON - SECOND // 2, NOON + 40 * SECOND]
    own.count_events(live, duplicate=0, rejected=[], now_us=NOON, history=False)
    own.count_events([0], duplicate=0, rejected=[], now_us=NOON, history=True)
    page = _page(own)
    assert page["ett_ingest_event_lag_seconds_count"][()] == 3
    assert page["ett_ingest_event_lag_seconds_sum"][()] == 20.5
    below = page["ett_ingest_event_lag_seconds_bucket"]
    assert [below[labelled(le=le)] for le in ("0.1", "0.5", "10.0", "30.0")] == [1, 2, 2, 3]


def test_the_last_arrival_is_that_of_a_new_event_that_is_no_history(own: OwnMetrics) -> None:
    name = "ett_ingest_last_event_timestamp_seconds"
    assert _page(own)[name][()] == NOON / SECOND
    own.count_events([], duplicate=1, rejected=["bad_id"], now_us=NOON + SECOND, history=False)
    own.count_events([NOON], duplicate=0, rejected=[], now_us=NOON + 2 * SECOND, history=True)
    assert _page(own)[name][()] == NOON / SECOND
    own.count_events([NOON], duplicate=0, rejected=[], now_us=NOON + 3 * SECOND, history=False)
    assert _page(own)[name][()] == NOON / SECOND + 3


def test_requests_are_counted_by_few_labels(own: OwnMetrics) -> None:
    own.count_request("GET", "/v1/jobs/{job}", 200, 0.004)
    own.count_request("GET", None, 404, 0.001)
    own.count_request("BREW" * 100, None, 405, 0.001)
    page = _page(own)
    assert page["ett_http_requests_total"] == {
        labelled(method="GET", route="/v1/jobs/{job}", status="200"): 1,
        labelled(method="GET", route="unmatched", status="404"): 1,
        labelled(method="other", route="unmatched", status="405"): 1,
    }
    durations = page["ett_http_request_duration_seconds_count"]
    assert durations == {labelled(route="/v1/jobs/{job}"): 1, labelled(route="unmatched"): 2}


def test_keys_beyond_the_first_fifty_are_one(own: OwnMetrics) -> None:
    for number in range(MOST_KEYS + 3):
        own.count_key(f"ett_{number:08}", 503 if number else 200, events=2)
    own.count_key("ett_00000000", 200, events=0)
    page = _page(own)
    assert len(page["ett_key_requests_total"]) == MOST_KEYS + 1
    assert page["ett_key_requests_total"][labelled(key="ett_00000000", result="answered")] == 2
    assert page["ett_key_requests_total"][labelled(key="other", result="refused")] == 3
    assert page["ett_key_events_total"][labelled(key="other")] == 6


def test_a_scrape_has_its_duration_and_what_was_left_out(own: OwnMetrics) -> None:
    own.count_scrape(0.25, 0)
    own.count_scrape(0.5, 3)
    page = _page(own)
    assert page["ett_collector_duration_seconds"] == {(): 0.5}
    assert page["ett_collector_errors_total"] == {(): 3}


@pytest.mark.parametrize("form", TextFormat)
def test_families_and_labels_are_those_that_are_named_and_no_others(
    own: OwnMetrics, form: TextFormat
) -> None:
    own.count_request("GET", "/healthz", 200, 0.001)
    own.count_key("ett_aaaaaaaa", 200, events=1)
    own.watch(Admission(Capacities()))
    samples = {
        sample.name: frozenset(sample.labels) - {"le"}
        for family in families(own.text(form).decode(), form)
        for sample in family.samples
        if not sample.name.startswith("process_") and sample.name != "python_info"
    }
    suffixes = {"histogram": ("_bucket", "_count", "_sum")}
    assert samples == {
        family.name + suffix: frozenset(family.labels)
        for family in OWN
        for suffix in suffixes.get(family.kind, ("",))
    }


def test_what_the_library_adds_is_named(own: OwnMetrics) -> None:
    others = set(_page(own)) - {name for name in _page(own) if name.startswith("ett_")}
    assert others == set(OF_THE_LIBRARY)


def test_promtool_finds_nothing_to_say(own: OwnMetrics) -> None:
    own.count_request("GET", "/healthz", 200, 0.001)
    assert lint(own.text(TextFormat.PLAIN)) == ""
