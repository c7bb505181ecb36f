"""Scenarios: what might be better, read from one line, and what a job's ledger would then be.

``cut pt2_compile by 40%``, ``halve infra failures``, ``cut stage launcher_init/pre_train by
10%``, ``publish off the GPUs``: see ``GRAMMAR``.

A scenario gives all time of the ledger a chance to stay. What it takes away is the sum of
lengths times the chance to go: an expectation, in whole microseconds for each job. Effective
training always stays, as the job trains the same data; what goes is time around it.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from ett_service.core.errors import EttError
from ett_service.core.fleet.owned_time import OwnedTime
from ett_service.core.intervals import Interval, merged
from ett_service.core.ledger.results import AttemptLedger, JobLedger, Recovery
from ett_service.core.words import CATEGORIES_OF, FAILURES, Category, Cause, Origin, Phase

GRAMMAR = (
    "cut CATEGORY by N%",
    "cut stage PHASE/STAGE by N%",
    "cut ORIGIN failures by N%",
    "cut CAUSE failures by N%",
    "cut all failures by N%",
    "halve ...",
    "publish off the GPUs",
)
"""Every form that :func:`parse` reads. ``halve`` stands for a cut by 50%."""

SCENARIOS = (
    "halve infra failures",
    "halve user failures",
    "halve launcher_init",
    "halve pt2_compile",
    "halve checkpoint_blocking",
    "halve stalled",
    "halve restart_wait",
    "publish off the GPUs",
)
"""What is tried out where nothing else is asked for."""

CUTTABLE = tuple(
    phase for phase in Phase if phase not in (Phase.QUEUED, Phase.TRAIN_LOOP, Phase.STALLED)
)
"""Phases whose stages can be cut."""

_HALF = Fraction(1, 2)
_FORM = re.compile(
    r"cut (?P<what>\S.*) by (?P<percent>\d{1,3}(?:\.\d{1,4})?) ?(?:%|percent)"
    r"|halve (?P<halved>\S.*)"
    r"|(?P<publish>publish off (?:the )?gpus)",
    re.IGNORECASE,
)

_Owned: TypeAlias = Mapping[tuple[int | None, Category], Sequence[Interval]]
"""When an attempt owned time of a category, in order."""


class UnreadableScenario(EttError):
    """A text that says no scenario; the message says what is allowed in place of it."""


@dataclass(frozen=True, slots=True)
class CutCategory:
    """Every second of a category takes so much less."""

    category: Category
    share: Fraction  #: of its time that goes, above 0, at most 1

    @property
    def text(self) -> str:
        """The scenario as :func:`parse` reads it."""
        return f"cut {self.category} by {_percent(self.share)}"

    @property
    def assumption(self) -> str:
        """What has to be true for the figures to hold."""
        return f"All {self.category} shrinks alike, and nothing replaces the removed time."


@dataclass(frozen=True, slots=True)
class CutStage:
    """A stage of a phase takes so much less."""

    phase: Phase  #: one of ``CUTTABLE``
    stage: str
    share: Fraction

    @property
    def text(self) -> str:
        """The scenario as :func:`parse` reads it."""
        return f"cut stage {self.phase}/{self.stage} by {_percent(self.share)}"

    @property
    def assumption(self) -> str:
        """What has to be true for the figures to hold."""
        return (
            "The stage's own time is time that its phase owned, up to all of it. A window that "
            "holds a part of the phase holds the same part of the stage."
        )


@dataclass(frozen=True, slots=True)
class CutFailures:
    """So many of the failures of an origin or cause do not happen; of all, where neither is set."""

    origin: Origin | None
    cause: Cause | None
    share: Fraction

    @property
    def text(self) -> str:
        """The scenario as :func:`parse` reads it."""
        return f"cut {self.origin or self.cause or 'all'} failures by {_percent(self.share)}"

    @property
    def assumption(self) -> str:
        """What has to be true for the figures to hold."""
        return (
            "Each of these failures is prevented with the same probability, independently of the "
            "others. A prevented failure removes its silent tail, its recovery and the training "
            "repeated after it; before the first loop, the time until the next attempt."
            f"{' Preemptions are not among them.' if self.origin is Origin.INFRA else ''}"
        )

    def covers(self, attempt: AttemptLedger) -> bool:
        """Whether the attempt ended in one of these failures."""
        if attempt.outcome not in FAILURES:
            return False
        return self.origin in (None, attempt.origin) and self.cause in (None, attempt.cause)


Scenario: TypeAlias = CutCategory | CutStage | CutFailures


def parse(text: str) -> Scenario:
    """Read one scenario; but for a stage's name neither case nor the number of spaces matters.

    Raises:
        UnreadableScenario: it says none.
    """
    form = _FORM.fullmatch(" ".join(text.split()))
    if form is None:
        raise UnreadableScenario("It must be one of: " + "; ".join(GRAMMAR) + ".")
    if form["publish"]:
        return CutStage(Phase.SHUTDOWN, "model_publish", Fraction(1))
    what = form["halved"] or form["what"]
    share = _HALF if form["halved"] else Fraction(form["percent"]) / 100
    if not 0 < share <= 1:
        raise UnreadableScenario("It must be cut by more than 0% and by 100% at most.")
    kind, _, stage = what.partition(" ")
    if kind.lower() == "stage":
        return _stage(stage, share)
    what = what.lower()
    if what.endswith(" failures"):
        return _failures(what.removesuffix(" failures"), share)
    return _category(what, share)


def _category(word: str, share: Fraction) -> Scenario:
    allowed = [each for each in Category if each is not Category.EFFECTIVE_TRAINING]
    if word not in allowed:
        raise UnreadableScenario(f"The category must be one of: {', '.join(allowed)}.")
    return CutCategory(Category(word), share)


def _stage(words: str, share: Fraction) -> Scenario:
    phase, slash, stage = words.partition("/")
    phase = phase.lower()
    if not slash or not stage or phase not in CUTTABLE:
        allowed = ", ".join(CUTTABLE)
        raise UnreadableScenario(
            f"The stage must be named PHASE/STAGE, the phase one of: {allowed}."
        )
    return CutStage(Phase(phase), stage, share)


def _failures(word: str, share: Fraction) -> Scenario:
    if word == "all":
        return CutFailures(None, None, share)
    if word in list(Origin):
        return CutFailures(Origin(word), None, share)
    if word in list(Cause):
        return CutFailures(None, Cause(word), share)
    allowed = ", ".join(dict.fromkeys(["all", *Origin, *Cause]))
    raise UnreadableScenario(f"The failures must be those of an origin or cause: {allowed}.")


def _percent(share: Fraction) -> str:
    return f"{float(share * 100):.10g}%"


class Saved(NamedTuple):
    """Microseconds that a job would not have taken, as expected."""

    us: int = 0
    weighted_us: int = 0
    gpu_us: int = 0


@dataclass(frozen=True, slots=True)
class Removal:
    """What goes with one failure that does not happen."""

    number: int  #: of the attempt that failed
    intervals: tuple[Interval, ...]  #: disjoint, in order


def removals(ledger: JobLedger, scenario: CutFailures) -> list[Removal]:
    """Return what each of the scenario's failures takes along; the ledger needs its segments.

    An attempt that had a loop takes its silent tail, the recovery that followed, across as many
    attempts as that took, and the training that the resumed attempt repeated. One that had none
    takes what lies from its begin to that of the next attempt, which takes its place; the last
    attempt of a run has no next, and takes nothing.
    """
    failed = [attempt for attempt in ledger.attempts if scenario.covers(attempt)]
    if not failed:
        return []
    recoveries = {recovery.interrupted: recovery for recovery in ledger.recoveries}
    owned = _owned(ledger, (Category.STALLED, Category.REPEATED_TRAINING))
    return [
        Removal(attempt.number, tuple(merged(_gone(ledger, attempt, recoveries, owned))))
        for attempt in failed
    ]


def _owned(ledger: JobLedger, categories: Collection[Category]) -> _Owned:
    owned: dict[tuple[int | None, Category], list[Interval]] = defaultdict(list)
    for start, end, category, _, number in ledger.segments:
        if category in categories:
            owned[number, category].append((start, end))
    return owned


def _gone(
    ledger: JobLedger,
    attempt: AttemptLedger,
    recoveries: Mapping[int, Recovery],
    owned: _Owned,
) -> Iterator[Interval]:
    if attempt.loop_started_at is None:
        for after in ledger.attempts[attempt.number + 1 : attempt.number + 2]:
            if all(run.first_attempt != after.number for run in ledger.runs):
                yield attempt.started_at, after.started_at
        return
    yield from _last(owned.get((attempt.number, Category.STALLED), ()), attempt.silent_tail_us)
    recovery = recoveries.get(attempt.number)
    if recovery is not None:
        yield recovery.start_at, recovery.end_at
        if recovery.resumed is not None:
            yield from owned.get((recovery.resumed, Category.REPEATED_TRAINING), ())


def _last(intervals: Sequence[Interval], us: int) -> Iterator[Interval]:
    """Yield so much of the end of *intervals*: of stalled time that is the silent tail."""
    for start, end in reversed(intervals):
        if us <= 0:
            return
        yield max(start, end - us), end
        us -= end - start


class Counterfactual:
    """A job under scenarios that come true together, each independent of the others."""

    def __init__(self, ledger: JobLedger, scenarios: Iterable[Scenario]) -> None:
        self._categories: dict[Category, float] = defaultdict(lambda: 1.0)
        self._stages: dict[tuple[int | None, Category], float] = defaultdict(lambda: 1.0)
        failures: list[tuple[float, Sequence[Removal]]] = []
        for scenario in scenarios:
            stays = _rest(scenario.share)
            if isinstance(scenario, CutCategory):
                self._categories[scenario.category] *= stays
            elif isinstance(scenario, CutStage):
                for attempt in ledger.attempts:
                    self._cut_stage(attempt, scenario)
            else:
                failures.append((stays, removals(ledger, scenario)))
        self._chances = _Chances(failures)

    def _cut_stage(self, attempt: AttemptLedger, scenario: CutStage) -> None:
        categories = CATEGORIES_OF[scenario.phase]
        owned_us = sum(attempt.categories_us.get(each, 0) for each in categories)
        us = stage_us(attempt, scenario)
        if us and owned_us:
            stays = 1 - float(scenario.share) * min(1.0, us / owned_us)
            for each in categories:
                self._stages[attempt.number, each] *= stays

    @property
    def is_idle(self) -> bool:
        """Whether the scenarios can take nothing from the job: others act as without them."""
        return not (self._categories or self._stages or self._chances.changes)

    def saved(self, times: Iterable[OwnedTime]) -> Saved:
        """Return what of this time of the job would not be there."""
        if not (self._stages or self._chances.changes):
            cut = self._categories
            times = [owned for owned in times if owned.category in cut] if cut else ()
        wall, weighted, held = [], [], []
        for start, end, category, _, number, _, gpus, is_held in times:
            gone = self._gone_us(start, end, category, number)
            if gone:
                wall.append(gone)
                weighted.append(gone * gpus)
                held.append(gone * gpus if is_held else 0.0)
        # Exact sums of floats: the order in which times come must not matter.
        return Saved(*(round(math.fsum(parts)) for parts in (wall, weighted, held)))

    def _gone_us(self, start: int, end: int, category: Category, number: int | None) -> float:
        if category is Category.EFFECTIVE_TRAINING:
            return 0.0
        stays = self._categories.get(category, 1.0)
        if self._stages:
            stays *= self._stages.get((number, category), 1.0)
        if self._chances.may_change(start, end):
            return end - start - stays * self._chances.staying_us(start, end)
        return 0.0 if stays == 1.0 else end - start - stays * float(end - start)


def _rest(share: Fraction) -> float:
    """Return what is left of 1, by one division: arithmetic of fractions takes far longer."""
    return (share.denominator - share.numerator) / share.denominator


def stage_us(attempt: AttemptLedger, scenario: CutStage) -> int:
    """Return the stage's own (exclusive) time in the attempt, in microseconds."""
    return sum(
        stage.exclusive_us
        for stage in attempt.stages
        if (stage.phase, stage.stage) == (scenario.phase, scenario.stage)
    )


class _Chances:
    """The chance of each instant to stay: step by step, between the edges of all removals."""

    def __init__(self, removals: Sequence[tuple[float, Sequence[Removal]]]) -> None:
        steps: dict[int, list[int]] = defaultdict(lambda: [0] * len(removals))
        for place, (_, gone) in enumerate(removals):
            for start, end in (interval for removal in gone for interval in removal.intervals):
                steps[start][place] += 1
                steps[end][place] -= 1
        self._edges = sorted(steps)
        self.changes = bool(self._edges)  #: whether any instant may go
        self._stays = [1.0]
        counts = [0] * len(removals)
        for edge in self._edges:
            counts = [count + step for count, step in zip(counts, steps[edge], strict=True)]
            chances = (chance**count for (chance, _), count in zip(removals, counts, strict=True))
            self._stays.append(math.prod(chances))

    def may_change(self, start: int, end: int) -> bool:
        """Return whether any of ``[start, end)`` lies between the first and the last edge."""
        return self.changes and start < self._edges[-1] and self._edges[0] < end

    def staying_us(self, start: int, end: int) -> float:
        """Return how much of ``[start, end)`` is expected to stay."""
        first, last = bisect_right(self._edges, start), bisect_left(self._edges, end)
        cuts = [start, *self._edges[first:last], end]
        pieces = zip(pairwise(cuts), self._stays[first : last + 1], strict=True)
        return math.fsum((stop - begin) * stays for (begin, stop), stays in pieces)
