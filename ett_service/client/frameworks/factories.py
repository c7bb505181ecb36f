"""The entry points of Lightning: a callback for every trainer, where the environment asks for it.

Lightning calls these for each ``Trainer`` and each ``Fabric`` of every environment that has this
package, so nothing is imported unless something is to be recorded.
"""

import os
from typing import Any

from ett_service.client.frameworks.adapter import is_wanted
from ett_service.client.guard import guarded


@guarded(otherwise=[])
def lightning_callbacks() -> Any:
    """Return what ``lightning.pytorch.callbacks_factory`` adds to every Trainer."""
    if not is_wanted(os.environ):
        return []
    from ett_service.client.frameworks.lightning import EttCallback  # noqa: PLC0415 -- heavy

    return [EttCallback()]


@guarded(otherwise=[])
def fabric_callbacks() -> Any:
    """Return what ``lightning.fabric.callbacks_factory`` adds to every Fabric."""
    if not is_wanted(os.environ):
        return []
    from ett_service.client.frameworks.fabric import EttFabricCallback  # noqa: PLC0415 -- heavy

    return [EttFabricCallback()]
