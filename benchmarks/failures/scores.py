"""How often the rules are right, by origin and by cause, and what they take for what."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.failures.messages import LabelledMessage, judge
from ett_service.core.words import Cause, Origin


@dataclass(frozen=True, slots=True)
class Comparison:
    """The label of a message beside what the rules say of it, and the rule that decided."""

    id: str
    origin: Origin
    cause: Cause
    judged_origin: Origin
    judged_cause: Cause
    rule: str

    @property
    def is_right(self) -> bool:
        """Both origin and cause are those of the label."""
        return (self.origin, self.cause) == (self.judged_origin, self.judged_cause)


@dataclass(frozen=True, slots=True)
class WordScore:
    """How one origin or cause fares."""

    word: str
    labelled: int
    judged: int
    right: int
    precision: float | None  #: of what is judged so, the share that is labelled so
    recall: float | None  #: of what is labelled so, the share that is judged so


@dataclass(frozen=True, slots=True)
class HalfScore:
    """The scores of one half; ``confusions`` are ``(labelled, judged, n)``, most frequent first."""

    messages: int
    origin_right: int
    cause_right: int
    origins: tuple[WordScore, ...]
    causes: tuple[WordScore, ...]
    confusions: tuple[tuple[Cause, Cause, int], ...]
    misses: tuple[Comparison, ...]


def compare(message: LabelledMessage) -> Comparison:
    """Return what the rules say of *message* beside its label."""
    judged = judge(message)
    return Comparison(
        message.id,
        message.origin,
        message.cause,
        judged.origin,
        judged.cause,
        judged.evidence.rule,
    )


def score(messages: Iterable[LabelledMessage]) -> HalfScore:
    """Return the scores of *messages*."""
    compared = [compare(message) for message in messages]
    origins = _by_word([(pair.origin, pair.judged_origin) for pair in compared])
    causes = _by_word([(pair.cause, pair.judged_cause) for pair in compared])
    confusions = Counter(
        (pair.cause, pair.judged_cause) for pair in compared if pair.cause != pair.judged_cause
    )
    return HalfScore(
        len(compared),
        sum(word.right for word in origins),
        sum(word.right for word in causes),
        origins,
        causes,
        tuple((labelled, judged, n) for (labelled, judged), n in confusions.most_common()),
        tuple(pair for pair in compared if not pair.is_right),
    )


def _by_word(pairs: Sequence[tuple[str, str]]) -> tuple[WordScore, ...]:
    """Score each word of the *pairs* of a label and a judgement, in alphabetical order."""
    labelled = Counter(label for label, _ in pairs)
    judged = Counter(judgement for _, judgement in pairs)
    right = Counter(label for label, judgement in pairs if label == judgement)
    return tuple(
        WordScore(
            word,
            labelled[word],
            judged[word],
            right[word],
            _share(right[word], judged[word]),
            _share(right[word], labelled[word]),
        )
        for word in sorted(labelled | judged)
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
