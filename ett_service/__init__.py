"""Effective Training Time of a fleet of training jobs. In a trainer: ``import ett_service as ett``.

What is here is the client, on the standard library alone. It never raises into the trainer, never
blocks it and never needs the network. It is imported with the first use of one of its names, so
that the command line and the service start without it.
"""

import sys as _sys
import time as _time

#: When this was imported, and whether torch was there: where a launch's time went begins here.
imported_ns = _time.clock_gettime_ns(getattr(_time, "CLOCK_BOOTTIME", _time.CLOCK_MONOTONIC))
torch_came_first = "torch" in _sys.modules

TYPE_CHECKING = False  # that of ``typing``, whose import takes longer than all else here

if TYPE_CHECKING:
    from ett_service.client.surface import *  # noqa: F403 -- the names stand there, once
else:

    def __getattr__(name: str) -> object:
        from ett_service.client import surface  # noqa: PLC0415 -- with the first use

        globals().update({public: getattr(surface, public) for public in surface.__all__})
        if name in surface.__all__ or name == "__all__":
            return getattr(surface, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
