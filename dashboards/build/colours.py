"""The colours of a dashboard: of categories as everywhere, and a few for what is good or bad."""

from collections.abc import Mapping

from ett_service.charts.palette import BETTER, COLOURS, WORSE
from ett_service.core.words import Category, Phase

_PALER = "80"
_OUTLINE = "#8080804d"
_SHARED = frozenset({Category.REPEATED_TRAINING, Category.RECOMPILE})

CATEGORY_COLOURS: Mapping[str, str] = {
    category.value: COLOURS.get(category, _OUTLINE) + (_PALER if category in _SHARED else "")
    for category in Category
}
"""By category. Grafana cannot hatch: a wasted category that shares its hue is paler."""

PHASE_COLOURS: Mapping[str, str] = {
    **CATEGORY_COLOURS,
    Phase.TRAIN_LOOP.value: COLOURS[Category.EFFECTIVE_TRAINING],
    Phase.QUEUED.value: _OUTLINE,
}
"""Those, and of the phases that are no category."""

GOOD = BETTER
BAD = WORSE
ALARM = COLOURS[Category.STALLED]
QUIET = COLOURS[Category.HARDWARE_SETUP]
