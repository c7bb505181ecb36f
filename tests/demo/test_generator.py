"""The same seed and last day give the same fleet, of the size that was promised."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from ett_service.demo.calendar import DAY, HOUR
from ett_service.demo.fleet import CLUSTERS, MODELS, TEAMS
from ett_service.demo.generator import LEAST_DAYS, MOST_DAYS, Fleet, generate
from tests.demo.conftest import DAYS, END_US, SEED, instant

pytestmark = pytest.mark.xdist_group("demo fleet")  # which takes seconds to make

SHORT = 6


def digest(fleet: Fleet) -> str:
    """Return a digest of all events and markers, and of the truth about them."""
    content = [[story.events for story in fleet.stories], list(fleet.markers), fleet.truth]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def test_the_fleet_is_as_large_as_documented(fleet: Fleet) -> None:
    counts = fleet.truth["counts"]
    assert counts["attempts"] >= 3_000
    assert 120_000 <= counts["events"] <= 200_000
    assert counts["jobs"] == len(fleet.stories) == len({story.job.name for story in fleet.stories})
    assert counts["events"] == sum(len(story.events) for story in fleet.stories)
    assert len(MODELS) == 20
    assert len(TEAMS) == 8
    counted = Counter(
        (event["team"], event["model"], event["cluster"], event["hardware"])
        for story in fleet.stories
        for event in story.events
        if event["type"] == "job"
    )
    assert {team for team, *_ in counted} == set(TEAMS)
    assert {model for _, model, *_ in counted} == {model.name for model in MODELS}
    assert {cluster for *_, cluster, _ in counted} == set(CLUSTERS)
    assert {hardware for *_, hardware in counted} == {"A100", "H100", "H200"}
    gpus = {story.job.gpus for story in fleet.stories}
    assert (min(gpus), max(gpus)) == (8, 4096)


def test_another_process_makes_the_same_fleet_byte_for_byte() -> None:
    program = (
        "import sys; from ett_service.demo.generator import generate; "
        "from tests.demo.test_generator import digest; "
        f"print(digest(generate(seed={SEED}, days={SHORT}, end_us={END_US})))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == digest(generate(seed=SEED, days=SHORT, end_us=END_US))


def test_another_seed_makes_another_fleet() -> None:
    first, other = (generate(seed=seed, days=SHORT, end_us=END_US) for seed in (SEED, SEED + 1))
    assert digest(first) != digest(other)


def test_a_later_end_on_the_same_day_only_adds() -> None:
    early = generate(seed=SEED, days=SHORT, end_us=END_US)
    late = generate(seed=SEED, days=SHORT, end_us=END_US + 5 * HOUR)
    goes_on = {story.job.name: story.events for story in late.stories}
    for story in early.stories:
        later = goes_on[story.job.name]
        cut_short = {event["type"] for event in story.events if event not in later}
        assert cut_short <= {"phase_started", "progress", "heartbeat"}
        earlier = [event for event in later if instant(event["at"]) <= END_US]
        assert [event for event in earlier if event not in story.events] == []


def test_no_event_lies_outside_of_the_fleets_time(fleet: Fleet) -> None:
    begin = instant(fleet.truth["from"])
    instants = [instant(event["at"]) for story in fleet.stories for event in story.events]
    assert begin <= min(instants)
    assert max(instants) == END_US == instant(fleet.truth["to"])
    assert END_US - begin >= DAYS * DAY


def test_some_jobs_run_at_the_end_and_some_wait(fleet: Fleet) -> None:
    assert fleet.truth["counts"]["running"] >= 5
    waiting = [story for story in fleet.stories if story.attempts == 0]
    assert waiting


def test_markers_record_releases_launches_and_maintenance(fleet: Fleet) -> None:
    kinds = Counter(marker["kind"] for marker in fleet.markers)
    assert kinds["deploy"] in (9, 10)
    assert (kinds["launch"], kinds["maintenance"]) == (2, 6)
    assert all(("end" in marker) == (marker["kind"] == "maintenance") for marker in fleet.markers)
    assert fleet.truth["counts"]["markers"] == len(fleet.markers)
    assert max(instant(marker["at"]) for marker in fleet.markers) <= END_US


@pytest.mark.parametrize("days", [LEAST_DAYS - 1, MOST_DAYS + 1])
def test_a_length_that_makes_no_sense_is_refused(days: int) -> None:
    with pytest.raises(ValueError, match="days must be from 3 to 360"):
        generate(seed=SEED, days=days, end_us=END_US)


@pytest.mark.parametrize("days", [LEAST_DAYS, 7, 21])
def test_short_fleets_hold_all_that_is_planted(days: int) -> None:
    fleet = generate(seed=SEED, days=days, end_us=END_US)
    planted = fleet.truth["planted"]
    assert [effect["kind"] for effect in planted].count("regression") == 2
    for effect in planted:
        assert instant(fleet.truth["from"]) <= instant(effect["from"]) < END_US, effect["name"]
