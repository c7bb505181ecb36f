"""Refuses numbers for which a formula means nothing."""


def refuse_negative(**arguments: float) -> None:
    """Raise ValueError, naming the argument, unless all are 0 or more; NaN is refused too."""
    for name, value in arguments.items():
        if not value >= 0:
            raise ValueError(f"{name} is {value}: it must not be negative")


def refuse_not_positive(**arguments: float) -> None:
    """Raise ValueError, naming the argument, unless all are above 0."""
    for name, value in arguments.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}: it must be positive")


def refuse_no_share(**arguments: float) -> None:
    """Raise ValueError, naming the argument, unless all are above 0 and at most 1."""
    for name, value in arguments.items():
        if not 0 < value <= 1:
            raise ValueError(f"{name} is {value}: it must lie above 0 and not above 1")
