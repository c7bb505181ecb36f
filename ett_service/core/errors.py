"""The root of what this package raises."""


class EttError(Exception):
    """Something a user can read and act on; ``hint`` says what to try."""

    hint = ""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint or self.hint
