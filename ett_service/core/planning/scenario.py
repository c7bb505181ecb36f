"""Scenarios: what might be better, said in one line and read into what it means.

``cut pt2_compile by 40 %``, ``halve infra failures``, ``cut stage launcher_init/pre_train by
10 %``, ``publish off the GPUs``: see ``GRAMMAR``.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from ett_service.core.errors import EttError
from ett_service.core.ledger.results import AttemptLedger
from ett_service.core.words import FAILURES, Category, Cause, Origin, Phase

GRAMMAR = (
    "cut CATEGORY by N %",
    "cut stage PHASE/STAGE by N %",
    "cut ORIGIN failures by N %",
    "cut CAUSE failures by N %",
    "cut all failures by N %",
    "halve ...",
    "publish off the GPUs",
)
"""Every form that :func:`parse` reads. ``halve`` stands for a cut by 50 %."""

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


class UnreadableScenario(EttError):
    """A text that says no scenario; the message tells what is allowed in place of it."""


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
        raise UnreadableScenario("It must be cut by more than 0 % and by 100 % at most.")
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
    return f"{float(share * 100):.10g} %"
