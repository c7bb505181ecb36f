"""How often attempts make room for others, and what each kind of preemption costs."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from ett_service.analysis.scope import Scope
from ett_service.analysis.window import Window
from ett_service.storage.preemptions import Loss, Order, losses
from ett_service.storage.rollups import Place


@dataclass(frozen=True, slots=True)
class Preemption:
    """Losses by order; an order without any is absent."""

    losses: Mapping[Order, Loss] = field(default_factory=dict)

    def of(self, order: Order) -> Loss:
        """Return what was lost to preemptions of this order."""
        return self.losses.get(order, Loss())

    def plus(self, other: "Preemption") -> "Preemption":
        """Put both together."""
        orders = self.losses.keys() | other.losses.keys()
        return Preemption({order: self.of(order).plus(other.of(order)) for order in orders})


NOTHING_LOST = Preemption()


def preemptions(
    conn: Connection,
    scope: Scope,
    window: Window,
    places: Collection[Place],
    step: int | None = None,
) -> dict[Place, Preemption]:
    """Tell the losses to preemption of a window at each of *places*, as ``fleet.groups`` has them.

    They are read from the attempts themselves, which know their cohort even where the cap on
    cohorts put its time into ``other``: what has no place of its own goes there.
    """
    found: defaultdict[Place, Preemption] = defaultdict(Preemption)
    each = losses(conn, scope.cohorts, window, scope.group_by, step)
    for ((bucket, labels), order), loss in each.items():
        place = (bucket, (*labels, "") if scope.group_by else ())
        if place not in places:
            place = (bucket, _other(scope, labels))
        found[place] = found[place].plus(Preemption({order: loss}))
    return found


def _other(scope: Scope, labels: Sequence[str]) -> tuple[str, ...]:
    """Name the group of what the cap left over; of all labels it has kept the project."""
    if not scope.group_by:
        return ()
    kept = (
        label if name == "project" else ""
        for name, label in zip(scope.group_by, labels, strict=True)
    )
    return (*kept, "1")
