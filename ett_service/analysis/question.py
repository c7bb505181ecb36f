"""What a question about the fleet may not ask."""

from collections.abc import Collection

from ett_service.core.errors import EttError


class BadQuestion(EttError):
    """A part of a question that cannot be answered: which one, and what it may be instead."""

    def __init__(self, parameter: str, code: str, allowed: str | Collection[str]) -> None:
        """*allowed* is a list of words, or a sentence where they cannot be listed."""
        self.parameter = parameter
        self.code = code
        self.allowed = allowed if isinstance(allowed, str) else list(allowed)
        said = allowed if isinstance(allowed, str) else f"It may be {', '.join(allowed)}."
        super().__init__(f"`{parameter}`: {code}. {said}")
