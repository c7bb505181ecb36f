"""Markers near an onset: the nearest first, and before them what speaks of the suspect."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from ett_service.core.interval import DAY_US
from ett_service.core.marker import Marker
from ett_service.core.regression import Cohort, NearMarker, Suspect
from ett_service.storage.markers import MarkerFilter, markers

REACH_US = 3 * DAY_US
MOST = 5

_MOST_READ = 1_000
_HALF_US = DAY_US  #: so far from the onset, a marker counts for half
_SPEAKS_OF_ANOTHER = 0.2
_SAYS_NOTHING = 0.5


def near(
    conn: Connection,
    project_id: int,
    onset_us: int,
    cohort: Cohort,
    suspects: Sequence[Suspect],
) -> tuple[NearMarker, ...]:
    """Rank the project's markers within three days of an onset, at most ``MOST`` of them."""
    wanted = MarkerFilter(from_us=onset_us - REACH_US, to_us=onset_us + REACH_US)
    found = [kept.marker for kept in markers(conn, [project_id], wanted, limit=_MOST_READ)]
    return ranked(found, onset_us, cohort, suspects)


def ranked(
    found: Sequence[Marker], onset_us: int, cohort: Cohort, suspects: Sequence[Suspect]
) -> tuple[NearMarker, ...]:
    """Rank markers by how near they are, and by whether their labels fit.

    The score is 1 for one at the onset whose label is the suspect's value, half of it a day away.
    """
    told = [
        NearMarker(
            id=one.id,
            kind=one.kind.value,
            title=one.title,
            at_us=one.at,
            score=round(_nearness(one, onset_us) * _fit(one.labels, cohort, suspects), 6),
        )
        for one in found
    ]
    told.sort(key=lambda one: (-one.score, abs(one.at_us - onset_us), one.id))
    return tuple(told[:MOST])


def _nearness(marker: Marker, onset_us: int) -> float:
    end = marker.at if marker.end is None else marker.end
    away = max(marker.at - onset_us, onset_us - end, 0)
    return 1 / (1 + (away / _HALF_US) ** 2)


def _fit(labels: Mapping[str, str], cohort: Cohort, suspects: Sequence[Suspect]) -> float:
    """Weigh what labels say: of the suspect, of other jobs than the cohort's, or neither."""
    if any(labels.get(name, value) != value for name, value in cohort if value):
        return _SPEAKS_OF_ANOTHER
    named = [one for one in suspects if one.dimension in labels]
    if not named:
        return _SAYS_NOTHING
    return 1.0 if any(labels[one.dimension] == one.value for one in named) else _SPEAKS_OF_ANOTHER
