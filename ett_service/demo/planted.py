"""The effects that are planted in the fleet, so that what finds them can be judged."""

from ett_service.demo.almanac import Almanac
from ett_service.demo.fleet import MODELS
from ett_service.demo.units import HOUR

SLOW_STORAGE_CLUSTER = "birch"
OUT_CLUSTER = "cedar"
SLOW_COMPILE_TEAM = "mixture"
GROWING_TEAM = "recsys"
QUICKER_STAGE = "train_module_creation"

COMPILE_FACTOR = 1.6
STORAGE_FACTOR = 2.2
GROWTH_FACTOR = 2.0
LAUNCHER_FACTOR = 0.5


class Planted:
    """What each planted effect does to a length or a number, at an instant in microseconds."""

    def __init__(self, almanac: Almanac) -> None:
        self._almanac = almanac
        self.slow_models = frozenset(m.name for m in MODELS if m.team == SLOW_COMPILE_TEAM)
        slow_from = almanac.planned("compile")
        self.slow_version, self.slow_from = next(
            (version, since) for version, since in almanac.releases if since >= slow_from
        )
        self.storage_from = almanac.planned("checkpoint") + 14 * HOUR
        self.growth_from = almanac.planned("mix")
        self.launched_at = almanac.planned("launch") + 9 * HOUR
        self.idle_launch_at = almanac.planned("idle_launch") + 9 * HOUR

    def compile_factor(self, model: str, code_version: str) -> float:
        """Return how much longer a compile of *model* takes with the code of *code_version*."""
        slow = model in self.slow_models and code_version >= self.slow_version
        return COMPILE_FACTOR if slow else 1.0

    def save_factor(self, cluster: str, at: int) -> float:
        """Return how much longer a save blocks the loop."""
        slow = cluster == SLOW_STORAGE_CLUSTER and at >= self.storage_from
        return STORAGE_FACTOR if slow else 1.0

    def arrival_factor(self, team: str, at: int) -> float:
        """Return how many times as many jobs a team starts."""
        return GROWTH_FACTOR if team == GROWING_TEAM and at >= self.growth_from else 1.0

    def launcher_factor(self, stage: str, at: int) -> float:
        """Return how much longer a stage of the launcher takes."""
        return LAUNCHER_FACTOR if stage == QUICKER_STAGE and at >= self.launched_at else 1.0
