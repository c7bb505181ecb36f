"""The registry: which subjects of a sample are modelled, and by which model."""

from ett_service.core.regressions.finding import Metric, Subject
from ett_service.detection.models.durations import duration_model
from ett_service.detection.models.ett_ratio import SUBJECT as ETT
from ett_service.detection.models.ett_ratio import ett_model
from ett_service.detection.models.failures import rate_model
from ett_service.detection.models.series_model import SeriesModel
from ett_service.detection.options import Memory
from ett_service.detection.panel import Groups
from ett_service.detection.sample import Sample
from ett_service.detection.window import Window


def subjects_of(sample: Sample) -> list[Subject]:
    """Return what *sample* has values of, in the order of their names."""
    found = {*sample.durations, *sample.rates}
    if sample.shares is not None and len(sample.shares.day):
        found.add(ETT)
    return sorted(found)


def series_model(subject: Subject, window: Window, groups: Groups, memory: Memory) -> SeriesModel:
    """Make the watch of one of the ``subjects`` of the window's sample."""
    if subject.metric is Metric.ETT_RATIO:
        return ett_model(window, groups, memory)
    if subject.metric is Metric.FAILURES_PER_GPU_HOUR:
        return rate_model(subject, window, groups, memory)
    return duration_model(subject, window, groups, memory)
