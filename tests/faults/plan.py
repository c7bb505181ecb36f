"""Acting at a message on its way to PostgreSQL."""

from collections.abc import Callable


class Plan:
    """What is to happen at a message, counted from when it was planned."""

    def __init__(self) -> None:
        self._act: Callable[[], None] | None = None
        self._left = 0

    def act(self, number: int, act: Callable[[], None]) -> None:
        """Plan to *act* before that message."""
        self._left, self._act = number, act

    def forget(self) -> None:
        """Plan nothing any more."""
        self._act = None

    def meet(self, _message: bytes) -> bool:
        """Act, if it is time; no answer is lost."""
        self._left -= 1
        if self._left == -1 and self._act is not None:
            self._act()
        return False
