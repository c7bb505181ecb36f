"""Dimensions: the facts about a job, and which of them separate jobs.

The one list: tables, views, filters, frames, dashboards, answers and the detector's observations
derive from it. A new dimension is a member of ``Facts``, ``Cohort`` and ``Dimension`` here, one of
the wire and of the client, and a column of ``cohort`` and ``job_ledger``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple


@dataclass(frozen=True)
class Facts:
    """What ``job`` events say of the job; of each member the latest."""

    name: str | None = None
    team: str | None = None
    model: str | None = None
    cluster: str | None = None
    hardware: str | None = None
    gpus: int | None = None
    kind: str | None = None
    code_version: str | None = None
    image: str | None = None
    owner: str | None = None
    submitted_at: int | None = None
    parameters: int | None = None
    precision: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


class Cohort(NamedTuple):
    """The dimensions of a cohort, empty where unknown: first those that the whole job has."""

    team: str = ""
    model: str = ""
    cluster: str = ""
    hardware: str = ""
    precision: str = ""
    kind: str = ""
    size: str = ""  #: accelerators as a power of two and what lies below the next: ``64-127``
    code_version: str = ""
    excluded: bool = False


DIMENSIONS: Final[tuple[str, ...]] = Cohort._fields[:-1]
"""What separates cohorts."""

STATED_DIMENSIONS: Final = tuple(name for name in DIMENSIONS if name in Facts.__annotations__)
"""Dimensions that a job states; ``size`` follows from its accelerators."""

WHOLE_JOB_DIMENSIONS: Final = DIMENSIONS[: DIMENSIONS.index("size")]
"""Dimensions that are alike in all attempts of a job; the others follow them in ``Cohort``."""

JOB_DIMENSIONS: Final = tuple(
    name for name in STATED_DIMENSIONS if name not in ("precision", "code_version")
)
"""Dimensions that stand beside each job, attempt and regression, and that filter them.

``code_version`` is each attempt's own; ``precision`` belongs to cohorts alone.
"""

JOB_COLUMNS: Final = ("name", *JOB_DIMENSIONS, "code_version")
"""Facts in words that a row about a job shows."""

Dimension = Literal[
    "project", "team", "model", "cluster", "hardware", "precision", "kind", "size", "code_version"
]
"""What the fleet can be grouped by and cut down to, for type checkers and schemas."""

GROUPS: Final = ("project", *DIMENSIONS)
"""The same as values."""
