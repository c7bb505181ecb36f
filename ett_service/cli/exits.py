"""What the command's exit codes mean, and the failures that carry one of their own."""

from enum import IntEnum
from typing import ClassVar

from ett_service.core.errors import EttError


class Exit(IntEnum):
    """Exit codes of ``ett``; part of its public surface."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    GATE = 3  #: a gate was not met
    OUT_OF_REACH = 4  #: the server could not be reached
    NOT_ALLOWED = 5


class Failure(EttError):
    """The command did not do what was asked."""

    code: ClassVar[Exit] = Exit.FAILED


class OutOfReach(Failure):
    """No answer came from the server."""

    code = Exit.OUT_OF_REACH


class NotAllowed(Failure):
    """The server knows no such key, or the key may not do this."""

    code = Exit.NOT_ALLOWED
