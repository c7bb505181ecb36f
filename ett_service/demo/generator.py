"""The whole fleet: which jobs are submitted when, and the truth about what was planted."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ett_service.core.intervals import rfc3339
from ett_service.demo import fleet as effects
from ett_service.demo.calendar import DAY, HOUR, Almanac, Draws, midnight
from ett_service.demo.fleet import CLUSTERS, MODELS, Model, Planted, Stream
from ett_service.demo.life import Life, Story
from ett_service.demo.stops import Taking
from ett_service.demo.training import Job, submit

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


LEAST_DAYS = 3
MOST_DAYS = 360  #: within a year, as names show the day and the month

_OFFICE_HOURS = 0.8  #: of the jobs are submitted in them


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a fleet did: a story a job in order of submission, markers, and the truth."""

    stories: Sequence[Story]
    markers: Sequence[Mapping[str, Any]]
    truth: Mapping[str, Any]


def generate(*, seed: int, days: int, end_us: int) -> Fleet:
    """Make the fleet of the *days* before an instant, in microseconds since the Unix epoch.

    The same seed and the same day of the end give the same events; those after the end are left
    out. Raises ``ValueError`` if *days* lie outside of ``LEAST_DAYS`` to ``MOST_DAYS``.
    """
    if not LEAST_DAYS <= days <= MOST_DAYS:
        raise ValueError(f"days must be from {LEAST_DAYS} to {MOST_DAYS}")
    made = _Making(seed, Almanac(days, end_us))
    stories = sorted(made.stories(), key=lambda story: (story.job.submitted_at, story.job.name))
    markers = list(made.markers())
    answers = truth(seed, made.almanac, made.planted, stories, len(markers))
    return Fleet(stories, markers, answers)


class _Making:
    def __init__(self, seed: int, almanac: Almanac) -> None:
        self._seed = seed
        self.almanac = almanac
        self.planted = Planted(almanac)
        self._takings: dict[str, list[Taking]] = {name: [] for name in CLUSTERS}

    def stories(self) -> Iterator[Story]:
        """Live the jobs that go first, then those that give way to them."""
        jobs = [*self._submitted()]
        firsts = [story for model in MODELS if model.pretrains_on for story in self._series(model)]
        firsts += [self._lived(job) for job in jobs if job.goes_first]
        for story in firsts:
            cluster = story.job.model.cluster
            self._takings[cluster] += [Taking(at, story.job.name) for at in story.taken_at]
        for takings in self._takings.values():
            takings.sort(key=lambda taking: (taking.at, taking.job))
        yield from firsts
        yield from (self._lived(job) for job in jobs if not job.goes_first)

    def _lived(self, job: Job) -> Story:
        takings = self._takings[job.model.cluster]
        return Life(self._seed, self.almanac, self.planted, takings, job).live()

    def _series(self, model: Model) -> Iterator[Story]:
        """Live one pretraining of a model after the other."""
        draws = Draws(self._seed, f"{model.name} pretrains")
        at = self.almanac.start_us + round(12 * HOUR * draws.share())
        while at < self.almanac.end_us:
            name = _named(model, "pretrain", at, 0)
            job = submit(
                draws, model, "pretrain", model.pretrains_on, 24 * model.pretrains_days,
                at=at, name=name, goes_first=True,
            )  # fmt: skip
            story = self._lived(job)
            yield story
            if story.ended_at is None:
                return
            at = story.ended_at + draws.about(10 * HOUR, 0.5)

    def _submitted(self) -> Iterator[Job]:
        """Return the jobs that users submit day by day."""
        day = self.almanac.first_day
        while day <= self.almanac.last_day:
            for model in MODELS:
                for stream in model.streams:
                    yield from self._of_day(midnight(day), self.almanac.load(day), model, stream)
            day += timedelta(days=1)

    def _of_day(self, day: int, load: float, model: Model, stream: Stream) -> Iterator[Job]:
        draws = Draws(self._seed, f"{day} {model.name} {stream.kind} {stream.goes_first}")
        growth = self.planted.arrival_factor(model.team, day)
        for number in range(draws.count(stream.a_day * load * growth)):
            in_hours = draws.chance(_OFFICE_HOURS)
            hour = 8 + 11 * draws.share() if in_hours else 24 * draws.share()
            at = day + min(round(hour * HOUR), DAY - 1)
            job = submit(
                draws, model, stream.kind, draws.pick(stream.gpus), stream.hours,
                at=at, name=_named(model, stream.kind, at, number + 1),
                goes_first=stream.goes_first,
            )  # fmt: skip
            if at <= self.almanac.end_us:
                yield job

    def markers(self) -> Iterator[dict[str, Any]]:
        """Return the markers that people set, in order of kind, then time."""
        return (
            marker for marker in self._all_markers() if marker["at"] <= rfc3339(self.almanac.end_us)
        )

    def _all_markers(self) -> Iterator[dict[str, Any]]:
        almanac, planted = self.almanac, self.planted
        for version, at in almanac.releases:
            yield _marker(at, "deploy", f"Release {version}", code_version=version)
        yield _marker(planted.launched_at, "launch", "Modules are created on the meta device")
        yield _marker(planted.idle_launch_at, "launch", "Quieter logs in the launcher")
        for cluster, windows in almanac.maintenance.items():
            for window in windows:
                marker = _marker(window.from_us, "maintenance", "Firmware", cluster=cluster)
                yield marker | {"end": rfc3339(window.to_us)}


def _named(model: Model, kind: str, at: int, number: int) -> str:
    return f"{model.name}-{kind}-{rfc3339(at)[5:10]}" + (f"-{number}" if number else "")


def _marker(at: int, kind: str, title: str, **labels: str) -> dict[str, Any]:
    return {"at": rfc3339(at), "kind": kind, "title": title, "labels": labels}
