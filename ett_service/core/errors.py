"""The root of what this package raises, and numbers for which a formula means nothing."""


class EttError(Exception):
    """Something a user can read and act on; ``hint`` says what to try."""

    hint = ""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint or self.hint


class OutOfDomain(ValueError):
    """An argument is not what it must be."""

    def __init__(self, name: str, value: float, must: str) -> None:
        super().__init__(f"{name} is {value}: it must {must}")
        self.name = name
        self.must = must


def refuse_negative(**arguments: float) -> None:
    """Raise OutOfDomain unless all are 0 or more; NaN is refused too."""
    for name, value in arguments.items():
        if not value >= 0:
            raise OutOfDomain(name, value, "not be negative")


def refuse_not_positive(**arguments: float) -> None:
    """Raise OutOfDomain unless all are above 0."""
    for name, value in arguments.items():
        if not value > 0:
            raise OutOfDomain(name, value, "be positive")


def refuse_no_share(**arguments: float) -> None:
    """Raise OutOfDomain unless all are above 0 and at most 1."""
    for name, value in arguments.items():
        if not 0 < value <= 1:
            raise OutOfDomain(name, value, "lie above 0 and not above 1")
