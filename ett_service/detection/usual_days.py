"""What days share in all subjects: models lean on what is usual for levels like theirs.

Conditions of a day move the logarithms of all phases alike, and hardly how many starts miss their
cache. So the memory of days is estimated of one sort of levels at a time.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum, auto

from ett_service.detection.day_memory import Evidence, UsualMemory, usual_memory
from ett_service.detection.models import METRICS
from ett_service.detection.models.levels import DurationModel
from ett_service.detection.models.rates import MissModel
from ett_service.detection.models.series_model import SeriesModel


class _Levels(Enum):
    """What levels are of."""

    LOGARITHMS = auto()
    MODES = auto()  #: how many durations are of the slower mode, times the distance of modes
    MISSES = auto()  #: shares


_Usual = Mapping[_Levels, UsualMemory | None]


def with_usual_days(models: Iterable[SeriesModel]) -> Iterator[SeriesModel]:
    """Yield each model with the memory of days that is usual; those in bursts as they are."""
    evidence, unsure = defaultdict[_Levels, list[Evidence]](list), list[SeriesModel]()
    for model in models:
        for levels, shown in _evidence(model):
            evidence[levels].append(shown)
        unsure.append(_remembering(model, {}))  # without the panels that it was read off
    usual = {levels: usual_memory(shown) for levels, shown in evidence.items()}
    for model in unsure:
        yield _remembering(model, usual)


def _evidence(model: SeriesModel) -> Iterator[tuple[_Levels, Evidence]]:
    if METRICS[model.subject.metric].in_bursts:
        return
    if isinstance(model, DurationModel):
        yield _Levels.LOGARITHMS, model.panel.evidence
        if model.modes is not None:
            yield _Levels.MODES, model.modes.panel.evidence
    elif isinstance(model, MissModel):
        yield _Levels.MISSES, model.panel.evidence


def _remembering(model: SeriesModel, usual: _Usual) -> SeriesModel:
    if METRICS[model.subject.metric].in_bursts:
        return model
    if isinstance(model, DurationModel):
        modes = model.modes and replace(model.modes, usual=usual.get(_Levels.MODES))
        return replace(model, usual=usual.get(_Levels.LOGARITHMS), modes=modes)
    if isinstance(model, MissModel):
        return replace(model, usual=usual.get(_Levels.MISSES))
    return model
