"""What the next run has to know of what earlier ones found."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ett_service.core.regression import Series, State, Verdict
from ett_service.core.regression_state import LASTING, Standing
from ett_service.detection.options import Frozen, Memory

_NOTHING: Mapping[Series, int] = MappingProxyType({})


def memory_of(standings: Iterable[Standing], accepted: Mapping[Series, int] = _NOTHING) -> Memory:
    """Return what to remember; *accepted* is since when values may be a series' baseline.

    What fires keeps its baseline. Days of incidents, and of regressions that are over, are no
    part of a later one: else what is cured would look like an improvement, and what comes back
    like nothing. What was accepted is normal from then on.
    """
    opened: dict[Series, Frozen] = {}
    bad: dict[Series, tuple[tuple[int, int], ...]] = {}
    for one in standings:
        series = one.finding.series
        if one.state is State.FIRING and one.verdict in LASTING:
            opened[series] = Frozen(
                from_us=one.baseline_from_us,
                to_us=one.baseline_to_us,
                onset_us=one.onset_us,
                improvement=one.verdict is Verdict.IMPROVEMENT,
            )
        elif (stretch := _bad_days(one)) and series not in accepted:
            bad[series] = (*bad.get(series, ()), stretch)
    return Memory(open=opened, accepted=dict(accepted), incidents=bad)


def _bad_days(one: Standing) -> tuple[int, int] | None:
    """Return from when to when values were not as usual; None where they were."""
    after = one.finding.after
    if one.verdict is Verdict.INCIDENT:
        return after.from_us, after.to_us
    if one.verdict is Verdict.REGRESSION and one.resolved_us is not None:
        return one.onset_us, one.resolved_us
    return None
