"""Frames of what a server decides from ledgers, asked over HTTP."""

from collections.abc import Sequence

import pandas as pd

from ett_service.frames.asking import Asking, window
from ett_service.frames.decisions import (
    advice_frame,
    effects_frame,
    gains_frame,
    parts_frame,
    scales_frame,
)
from ett_service.frames.source import When

_MOST_PARTS = 200
_MOST_CHANGES = 50


class Deciding(Asking):
    """What a server answers about causes, gains and advice."""

    def explain(
        self,
        *,
        group_by: Sequence[str] = ("model",),
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
        base_begin: When = None,
        base_end: When = None,
    ) -> pd.DataFrame:
        """Return the parts of the change from the base window, the largest first.

        ``change`` is of a ratio: -0.006 is 0.6 percentage points less. It sums to the whole
        change; ``part`` is a category or ``mix``, ``base`` and ``current`` what it moved between.
        """
        base = window(base_begin, base_end)
        answer = self.ask(
            "/v1/fleet/explain",
            group_by=",".join(group_by),
            where=list(where),
            base_from=base["from"],
            base_to=base["to"],
            limit=_MOST_PARTS,
            **window(begin, end),
        )
        return parts_frame(answer, group_by)

    def what_if(
        self,
        *scenarios: str,
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
    ) -> pd.DataFrame:
        """Return what each scenario would have gained, the most first; the gains do not add up.

        A scenario is a line such as ``cut pt2_compile by 40 %`` or ``halve infra failures``.
        """
        answer = self.ask(
            "/v1/what-if", scenario=list(scenarios), where=list(where), **window(begin, end)
        )
        return gains_frame(answer)

    def changes(
        self,
        *,
        kind: str | None = None,
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
    ) -> pd.DataFrame:
        """Return what is associated with each marker, the latest first: a row a measure.

        Differences are after minus before, with their bounds; what is not known is missing.
        """
        answer = self.ask(
            "/v1/fleet/changes",
            kind=kind,
            where=list(where),
            limit=_MOST_CHANGES,
            **window(begin, end),
        )
        return effects_frame(answer)

    def checkpoint_advice(
        self,
        *,
        group_by: Sequence[str] = (),
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
    ) -> pd.DataFrame:
        """Return how often each group should save, the most to gain first."""
        answer = self.ask(
            "/v1/fleet/checkpoint-advice",
            group_by=",".join(group_by) or None,
            where=list(where),
            **window(begin, end),
        )
        return advice_frame(answer, group_by)

    def projection(
        self,
        accelerators: Sequence[int] = (),
        *,
        failures_per_node_day: float | None = None,
        save_seconds: float | None = None,
        restart_seconds: float | None = None,
        interval_seconds: float | None = None,
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
    ) -> pd.DataFrame:
        """Return how ETT% would move with scale: a row a number of accelerators.

        What is given goes before what was measured in the window; ``ett_ratio`` is exact for the
        model, and ``published_ratio`` the short form with its error beside it. No rows where
        nothing was measured and not enough is given.
        """
        answer = self.ask(
            "/v1/fleet/projection",
            accelerators=",".join(map(str, accelerators)) or None,
            failures_per_node_day=failures_per_node_day,
            save_seconds=save_seconds,
            restart_seconds=restart_seconds,
            interval_seconds=interval_seconds,
            where=list(where),
            **window(begin, end),
        )
        return scales_frame(answer)
