"""Which subjects of a sample are watched, and by which rule."""

from ett_service.core.regression import Metric, Subject
from ett_service.detection.margins import Groups
from ett_service.detection.options import Memory
from ett_service.detection.rules.durations import watch_durations
from ett_service.detection.rules.ett_ratio import SUBJECT as ETT
from ett_service.detection.rules.ett_ratio import watch_ett
from ett_service.detection.rules.failure_rates import watch_rates
from ett_service.detection.sample import Sample
from ett_service.detection.watch import Watch
from ett_service.detection.window import Window


def subjects(sample: Sample) -> list[Subject]:
    """Return what *sample* has values of, in the order of their names."""
    found = {*sample.durations, *sample.rates}
    if sample.shares is not None and len(sample.shares.day):
        found.add(ETT)
    return sorted(found)


def watch(subject: Subject, window: Window, groups: Groups, memory: Memory) -> Watch:
    """Make the watch of one of the ``subjects`` of the window's sample."""
    if subject.metric is Metric.ETT_RATIO:
        return watch_ett(window, groups, memory)
    if subject.metric is Metric.FAILURES_PER_GPU_HOUR:
        return watch_rates(subject, window, groups, memory)
    return watch_durations(subject, window, groups, memory)
