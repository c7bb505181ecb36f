"""Automatic start: what PyTorch calls at the end of its own import.

It is an entry point of the group ``torch.backends``, which torch loads in every process unless
``TORCH_DEVICE_BACKEND_AUTOLOAD=0``; an exception in it would fail ``import torch``. Without the
variable that ``ett run`` sets it does nothing, and imports nothing.
"""

import os

VARIABLE = "ETT_AUTO"
"""``1``: record the first trainer that imports torch. ``0`` or nothing: none."""


def start() -> None:
    """Begin to record this process if it is a trainer that ``ett run`` started."""
    if VARIABLE in os.environ:
        try:
            from ett_service.client.automatic import begin  # noqa: PLC0415 -- only where wished

            begin(VARIABLE)
        except Exception:  # noqa: BLE001, S110 -- an import of torch must not fail for this
            pass
