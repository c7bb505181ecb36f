"""Every metric with its series model: how a sample's columns become series of days."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ett_service.core.regressions.finding import Metric, Subject
from ett_service.detection.models.ett import ett_model
from ett_service.detection.models.levels import duration_model, step_model
from ett_service.detection.models.rates import miss_model, rate_model
from ett_service.detection.models.series_model import SeriesModel
from ett_service.detection.sample import Memory
from ett_service.detection.window import Groups, Window


@dataclass(frozen=True, slots=True)
class ObservedMetric:
    """How a metric is searched."""

    model: Callable[[Subject, Window, Groups, Memory], SeriesModel]
    prior: float = 1.0  #: the weight of its series; little where it mostly follows from others
    in_bursts: bool = False  #: whether an outage changes it for days
    floor: float = 1.0  #: the part of the usual smallest change that counts


METRICS: Mapping[Metric, ObservedMetric] = MappingProxyType(
    {
        Metric.PHASE_SECONDS: ObservedMetric(duration_model),
        Metric.CACHE_MISS_RATIO: ObservedMetric(miss_model),
        Metric.CHECKPOINT_BLOCKING_SECONDS: ObservedMetric(duration_model),
        Metric.STEP_SECONDS: ObservedMetric(step_model, floor=1 / 3),
        Metric.UNSAVED_SECONDS: ObservedMetric(duration_model, prior=0.15, in_bursts=True),
        Metric.STAGE_SECONDS: ObservedMetric(duration_model),
        Metric.FAILURES_PER_GPU_HOUR: ObservedMetric(rate_model, prior=0.2, in_bursts=True),
        Metric.TIME_TO_START_SECONDS: ObservedMetric(duration_model, prior=0.15),
        Metric.TIME_TO_RECOVER_SECONDS: ObservedMetric(duration_model, prior=0.15, in_bursts=True),
        Metric.ETT_RATIO: ObservedMetric(ett_model, prior=0.15, in_bursts=True),
    }
)
"""Every metric."""
