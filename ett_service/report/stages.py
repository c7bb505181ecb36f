"""Own times of phases and stages, in which no instant of a phase counts twice."""

from collections import defaultdict
from collections.abc import Sequence

from ett_service.report.document import Answer


def own_seconds(stages: Sequence[Answer]) -> list[float]:
    """Return the own time of each of *stages*, which are an answer's.

    That of a stage is what no stage that began later has; that of a whole phase is what no stage
    of it has, so the own times of a phase and of its stages sum to the whole.
    """
    of_stages: dict[tuple[int, str], float] = defaultdict(float)
    for each in stages:
        if each["stage"] is not None:
            of_stages[each["number"], each["phase"]] += each["exclusive_seconds"]
    return [
        each["exclusive_seconds"]
        if each["stage"] is not None
        else max(0.0, each["exclusive_seconds"] - of_stages[each["number"], each["phase"]])
        for each in stages
    ]
