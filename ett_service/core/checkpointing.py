"""How often to save: the write-up's estimate of time wasted at a checkpoint interval.

A failure loses half an interval of training on average, and every save blocks the loop for a
while. The first grows with the interval, the second shrinks with it; in between lies the best
interval, which is Young's (1974). All durations are seconds, planned rather than measured;
``failures`` are those expected within ``training_seconds`` and need not be a whole number.
"""

import math


def unsaved_seconds(failures: float, interval_seconds: float) -> float:
    """Training that failures lose: half an interval each.

    Raises ValueError if an argument is negative.
    """
    _refuse_negative(failures=failures, interval_seconds=interval_seconds)
    return failures * interval_seconds / 2


def blocking_seconds(
    training_seconds: float, interval_seconds: float, save_seconds: float
) -> float:
    """Time for which saves of ``save_seconds`` each stop the loop.

    Raises ValueError if the interval is not positive or another argument is negative.
    """
    _refuse_negative(training_seconds=training_seconds, save_seconds=save_seconds)
    _refuse_not_positive(interval_seconds=interval_seconds)
    return training_seconds / interval_seconds * save_seconds


def wasted_ratio(
    training_seconds: float, failures: float, interval_seconds: float, save_seconds: float
) -> float:
    """WTT% as a ratio: what failures lose and saves block, over the training time.

    Raises ValueError if the training time or the interval is not positive or another argument
    is negative.
    """
    _refuse_not_positive(training_seconds=training_seconds)
    unsaved = unsaved_seconds(failures, interval_seconds)
    blocking = blocking_seconds(training_seconds, interval_seconds, save_seconds)
    return (unsaved + blocking) / training_seconds


def best_interval_seconds(training_seconds: float, failures: float, save_seconds: float) -> float:
    """The interval that wastes least: ``sqrt(2 * training * save / failures)``.

    Infinite where nothing fails: then each save is a waste. Raises ValueError if the training
    time is not positive or another argument is negative.
    """
    _refuse_not_positive(training_seconds=training_seconds)
    _refuse_negative(failures=failures, save_seconds=save_seconds)
    if failures == 0:
        return math.inf
    return math.sqrt(2 * training_seconds * save_seconds / failures)


def _refuse_negative(**arguments: float) -> None:
    for name, value in arguments.items():
        if not value >= 0:
            raise ValueError(f"{name} is {value}: it must not be negative")


def _refuse_not_positive(**arguments: float) -> None:
    for name, value in arguments.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}: it must be positive")
