"""What only the generator knows, written beside the database for whoever judges what finds it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ett_service.core.instant import rfc3339
from ett_service.demo import planted as effects
from ett_service.demo.almanac import Almanac
from ett_service.demo.fleet import CLUSTERS
from ett_service.demo.life import Story
from ett_service.demo.planted import Planted

VERSION = 1


def truth(
    seed: int, almanac: Almanac, planted: Planted, stories: Sequence[Story], markers: int
) -> dict[str, Any]:
    """Return the truth about a fleet; ``docs/design/0009-demo-fleet.md`` describes it."""
    causes: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for story in stories:
        causes.update({cause.value: count for cause, count in story.causes.items()})
        rows.update(story.rows)
    return {
        "version": VERSION,
        "seed": seed,
        "days": almanac.days,
        "from": rfc3339(almanac.start_us),
        "to": rfc3339(almanac.end_us),
        "counts": {
            "jobs": len(stories),
            "attempts": sum(story.attempts for story in stories),
            "events": sum(len(story.events) for story in stories),
            "running": sum(story.running is not None for story in stories),
            "markers": markers,
        },
        "causes": dict(sorted(causes.items())),
        "interruptions": dict(sorted(rows.items())),
        "infra_failures_per_1000_node_days": {
            cluster.name: cluster.rate for cluster in CLUSTERS.values()
        },
        "planted": _planted(almanac, planted),
    }


def _planted(almanac: Almanac, planted: Planted) -> list[dict[str, Any]]:
    slow = sorted(planted.slow_models)
    return [
        _effect("improvement", "train_module_creation", planted.launched_at,
                effects.LAUNCHER_FACTOR, {}, phase="launcher_init", stage=effects.QUICKER_STAGE),
        _effect("nothing", "launch_without_effect", planted.idle_launch_at, 1.0, {}),
        _effect("outage", "storage_outage", almanac.outage.from_us, 0.0,
                {"cluster": [effects.OUT_CLUSTER]}, to=rfc3339(almanac.outage.to_us)),
        _effect("regression", "slow_storage", planted.storage_from, effects.STORAGE_FACTOR,
                {"cluster": [effects.SLOW_STORAGE_CLUSTER]}, phase="checkpoint_blocking"),
        _effect("regression", "slow_compile", planted.slow_from, effects.COMPILE_FACTOR,
                {"model": slow}, phase="pt2_compile", stage="inductor",
                code_version=planted.slow_version),
        _effect("mix_shift", "more_retrains", planted.growth_from, effects.GROWTH_FACTOR,
                {"team": [effects.GROWING_TEAM]}),
    ]  # fmt: skip


def _effect(
    kind: str, name: str, since: int, factor: float, where: dict[str, list[str]], **more: str
) -> dict[str, Any]:
    members = {"kind": kind, "name": name, "where": where, "from": rfc3339(since), "to": None}
    return members | {"factor": factor, "phase": None, "stage": None, "code_version": None} | more
