"""Each planted effect shows in the ledgers where, when and as large as the truth says."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from statistics import fmean, median

import pytest

from ett_service.core.words import Category, Cause
from ett_service.demo.calendar import DAY, HOUR, Almanac
from ett_service.demo.fleet import Planted
from tests.demo.conftest import DAYS, END_US, Judged, Lived, instant, spans

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("fleet of sixty days")]


def slowdown(before: dict[str, list[float]], after: dict[str, list[float]]) -> float:
    """Return by how much medians grew, the mean over what is in both."""
    both = [name for name in before if name in after]
    return fmean(median(after[name]) / median(before[name]) for name in both)


def compiles(judged: Judged, models: Iterable[str], *, is_slow: bool) -> dict[str, list[float]]:
    """Return lengths of compiles by model and cache, with code before or since the slow one."""
    version = judged.effect("slow_compile")["code_version"]
    lengths: dict[str, list[float]] = defaultdict(list)
    for lived in judged.lived.values():
        if lived.job.model.name not in models:
            continue
        for event, code in compiles_with_version(lived):
            if (code >= version) == is_slow:
                key = f"{lived.job.model.name} {event['attributes']['compile_cache']}"
                lengths[key].append(instant(str(event["at"])) - instant(str(event["start"])))
    return lengths


def compiles_with_version(lived: Lived) -> Iterable[tuple[dict[str, dict[str, str]], str]]:
    """Return each whole compile with the code version of its attempt."""
    version = ""
    for event in lived.story.events:
        version = event.get("code_version", version)
        if event["type"] == "span" and "compile_cache" in event.get("attributes", {}):
            yield event, version


def test_compiles_of_one_family_take_longer_from_one_release_on(judged: Judged) -> None:
    effect = judged.effect("slow_compile")
    slow = effect["where"]["model"]
    before, after = (compiles(judged, slow, is_slow=is_slow) for is_slow in (False, True))
    assert min(len(lengths) for lengths in after.values()) >= 8
    assert slowdown(before, after) == pytest.approx(effect["factor"], rel=0.06)
    others = {lived.job.model.name for lived in judged.lived.values()} - set(slow)
    unchanged = [compiles(judged, others, is_slow=is_slow) for is_slow in (False, True)]
    assert slowdown(*unchanged) == pytest.approx(1.0, abs=0.06)


def test_saves_on_one_cluster_block_longer_from_one_day_on(judged: Judged) -> None:
    effect = judged.effect("slow_storage")
    lengths: dict[tuple[bool, bool], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for lived in judged.lived.values():
        model = lived.job.model
        for begin, length in spans(lived.story, "checkpoint_blocking"):
            here = model.cluster in effect["where"]["cluster"]
            lengths[here, begin >= effect["from"]][model.name].append(length)
    assert slowdown(lengths[True, False], lengths[True, True]) == pytest.approx(2.2, rel=0.05)
    assert slowdown(lengths[False, False], lengths[False, True]) == pytest.approx(1.0, abs=0.05)


def test_a_launch_shortens_one_stage_and_another_launch_nothing(judged: Judged) -> None:
    effect = judged.effect("train_module_creation")
    idle = judged.effect("launch_without_effect")
    by_time: dict[str, list[float]] = defaultdict(list)
    for lived in judged.lived.values():
        for begin, length in spans(lived.story, effect["phase"], effect["stage"]):
            time = "early" if begin < effect["from"] else "late"
            time = "between" if effect["from"] <= begin < idle["from"] else time
            by_time[time].append(length / lived.job.model.init_s)
    assert median(by_time["late"]) / median(by_time["early"]) == pytest.approx(0.5, rel=0.05)
    assert median(by_time["late"]) / median(by_time["between"]) == pytest.approx(1.0, abs=0.06)


def weighted(judged: Judged, since: int, until: int) -> dict[str, Counter[Category]]:
    """Sum accelerator time by team and category within a window."""
    spent: dict[str, Counter[Category]] = defaultdict(Counter)
    for lived in judged.lived.values():
        for segment in lived.ledger.segments:
            within = min(segment.end_at, until) - max(segment.start_at, since)
            if within > 0:
                spent[lived.job.model.team][segment.category] += within * lived.job.gpus
    return spent


def ratio(spent: Counter[Category]) -> float:
    """Return ETT%."""
    return spent[Category.EFFECTIVE_TRAINING] / spent.total()


def test_a_team_of_low_ett_grows_without_getting_worse(judged: Judged) -> None:
    effect = judged.effect("more_retrains")
    (team,) = effect["where"]["team"]
    since = effect["from"]
    before = weighted(judged, since - 14 * DAY, since)
    after = weighted(judged, since, END_US)
    share = [
        spent[team].total() / sum(of_team.total() for of_team in spent.values())
        for spent in (before, after)
    ]
    assert share[1] / share[0] == pytest.approx(effect["factor"], rel=0.35)
    assert abs(ratio(after[team]) - ratio(before[team])) < 0.03
    whole = sum((before[name] for name in before if name != team), Counter[Category]())
    assert ratio(before[team]) < ratio(whole) - 0.1
    submitted = [
        lived.job.submitted_at for lived in judged.lived.values() if lived.job.model.team == team
    ]
    daily = [
        sum(begin <= at < end for at in submitted) / ((end - begin) / DAY)
        for begin, end in ((since - 28 * DAY, since), (since, END_US))
    ]
    assert daily[1] / daily[0] == pytest.approx(effect["factor"], rel=0.3)


def test_an_outage_ends_all_on_one_cluster_and_nothing_begins_in_it(judged: Judged) -> None:
    effect = judged.effect("storage_outage")
    (cluster,) = effect["where"]["cluster"]
    assert effect["to"] - effect["from"] == 12 * HOUR
    ended = 0
    for job, attempt in judged.attempts():
        if job.model.cluster == cluster:
            assert not effect["from"] + HOUR < attempt.started_at < effect["to"]
            if effect["from"] <= attempt.ended_at < effect["to"]:
                assert attempt.cause is Cause.STORAGE
                ended += 1
    assert ended >= 3


def test_factors_hold_from_their_instant_on() -> None:
    planted = Planted(Almanac(DAYS, END_US))
    since, version = planted.slow_from, planted.slow_version
    assert planted.compile_factor("moe-52b", version) == 1.6
    assert planted.compile_factor("moe-52b", "2026.01") == 1.0
    assert planted.compile_factor("llm-70b", version) == 1.0
    assert planted.save_factor("birch", planted.storage_from - 1) == 1.0
    assert planted.save_factor("birch", planted.storage_from) == 2.2
    assert planted.save_factor("alder", since) == 1.0
    assert planted.arrival_factor("recsys", planted.growth_from) == 2.0
    assert planted.arrival_factor("vision", planted.growth_from) == 1.0
