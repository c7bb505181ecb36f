"""What a rule of the failure taxonomy looks at, how much it says, and what decided a failure."""

import re
from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import Literal

from ett_service.core.words import (
    Cause,
    Origin,
)


class Strength(IntEnum):
    """How much a piece of evidence says about what came first."""

    INITIATING = auto()  #: names what broke
    WITNESSED = auto()  #: a launcher saw it die before all others of its node, and not of what
    CONSEQUENCE = auto()  #: may as well echo another rank's end, or says only that one ended
    TEARDOWN = auto()  #: the launcher or the scheduler clears away the rest


LooksAt = Literal["text", "state", "signal", "exit"]
"""``text`` is exception type and message; ``signal`` is read from exit codes, too."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Where one of the *patterns* is found in what the rule *looks_at*, *cause* broke."""

    name: str
    looks_at: LooksAt
    cause: Cause
    patterns: tuple[str, ...]  #: regular expressions; letter case does not matter
    strength: Strength = Strength.INITIATING
    origin: Origin | None = None  #: None: that of the cause
    regex: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the patterns into one, once."""
        object.__setattr__(self, "regex", re.compile("|".join(self.patterns), re.IGNORECASE))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What decided a failure's origin and cause."""

    rule: str  #: name of the rule of the taxonomy, ``reported`` or ``none``
    text: str  #: the evidence itself: ``exit_code=137``, the matching part of the message
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Override:
    """A person's verdict on a failure, in place of that of the rules, which is kept beside it."""

    origin: Origin
    cause: Cause
    why: str
    made_by: str  #: the prefix of a key
    made_at: int
    rules_origin: Origin | None
    rules_cause: Cause | None
