"""What days share in all subjects: models lean on what is usual for levels like theirs.

Conditions of a day move the logarithms of all phases alike, and hardly how many starts miss their
cache. So the memory of days is estimated of one sort of levels at a time: of logarithms, of how
many are of the slower mode, and of shares of misses.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ett_service.detection.day_memory import Evidence, usual_memory
from ett_service.detection.models.series_model import LevelModel, LevelSort, SeriesModel


def with_usual_days(models: Iterable[SeriesModel]) -> Iterator[SeriesModel]:
    """Yield each model with the memory of days that is usual for its levels."""
    evidence, unsure = defaultdict[LevelSort, list[Evidence]](list), list[SeriesModel]()
    for model in models:
        if isinstance(model, LevelModel):
            for levels in model.all_levels():
                evidence[levels.sort].append(levels.panel.evidence)
            unsure.append(model.with_usual({}))  # without the panels that it was read off
        else:
            unsure.append(model)
    usual = {sort: usual_memory(shown) for sort, shown in evidence.items()}
    for model in unsure:
        yield model.with_usual(usual) if isinstance(model, LevelModel) else model
