"""The making of the process group, a stage of ``launcher_init``."""

import functools
import sys
from typing import Any

from ett_service.client.current import current
from ett_service.client.phase import stage

_ALSO = ("torch.distributed", "torch.distributed.device_mesh")


def hook(module: Any) -> None:
    """Measure ``init_process_group``. Raises ``AttributeError`` where there is none."""
    original = module.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        if current.recorder is None:
            return original(*args, **kwargs)
        with stage("process_group_init", phase="launcher_init"):
            return original(*args, **kwargs)

    module.init_process_group = init_process_group
    for name in _ALSO:
        other = sys.modules.get(name)
        if getattr(other, "init_process_group", None) is original:
            setattr(other, "init_process_group", init_process_group)  # noqa: B010 -- of any module
