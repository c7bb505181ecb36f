"""Frames of what a server works out from ledgers: causes of a change, gains, advice."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pandas as pd

from ett_service.frames.columns import COUNT, FLAG, INSTANT, RATIO, SECONDS, TEXT, Columns, typed
from ett_service.frames.source import Answer, ServerAnswers, When, window

HOURS = "float64"
MONEY = "float64"

_GAINS: Columns = {
    "scenario": TEXT,
    "change": RATIO,
    "change_low": RATIO,
    "change_high": RATIO,
    "ett_ratio": RATIO,
    "gpu_hours": HOURS,
    "gpu_hours_low": HOURS,
    "gpu_hours_high": HOURS,
    "money": MONEY,
    "currency": TEXT,
    "failures": COUNT,
    "jobs": COUNT,
    "assumption": TEXT,
}

_PARTS: Columns = {
    "other": FLAG,
    "part": TEXT,
    "change": RATIO,
    "base": RATIO,
    "current": RATIO,
    "jobs": TEXT,
}

_ADVICE: Columns = {
    "failures": COUNT,
    "infra_failures": COUNT,
    "saves": COUNT,
    "save_seconds": SECONDS,
    "mtbf_seconds": SECONDS,
    "interval_seconds": SECONDS,
    "wasted_ratio": RATIO,
    "best_interval_seconds": SECONDS,
    "best_interval_low_seconds": SECONDS,
    "best_interval_high_seconds": SECONDS,
    "best_wasted_ratio": RATIO,
    "flat_from_seconds": SECONDS,
    "flat_to_seconds": SECONDS,
    "gpu_hours": HOURS,
    "verdict": TEXT,
    "reason": TEXT,
    "assumption": TEXT,
}

_COMPILES: Columns = {
    "other": FLAG,
    "jobs_read": COUNT,
    "compiles": COUNT,
    "compile_seconds": SECONDS,
    "recompiles": COUNT,
    "recompile_seconds": SECONDS,
    "dynamic_seconds": SECONDS,
    "uncached_seconds": SECONDS,
    "autotune_seconds": SECONDS,
    "setting": TEXT,
}

_SOURCES: Columns = {
    "source": TEXT,
    "dims": TEXT,
    "recompiles": COUNT,
    "seconds": SECONDS,
    "functions": TEXT,
    "mark_dynamic": TEXT,
}

_EFFECTS: Columns = {
    "marker": TEXT,
    "kind": TEXT,
    "title": TEXT,
    "marked_at": INSTANT,
    "measure": TEXT,
    **{
        f"{side}_{name}": kind
        for side in ("before", "after")
        for name, kind in (("n", COUNT), ("mean_seconds", SECONDS), ("median_seconds", SECONDS))
    },
    **{
        f"{name}{bound}": SECONDS
        for name in ("difference", "median_difference")
        for bound in ("_seconds", "_low_seconds", "_high_seconds")
    },
}


_SCALES: Columns = {
    "accelerators": COUNT,
    "mtbf_seconds": SECONDS,
    "interval_seconds": SECONDS,
    "ett_ratio": RATIO,
    "low": RATIO,
    "high": RATIO,
    "published_ratio": RATIO,
    "published_error": RATIO,
    "best_interval_seconds": SECONDS,
    "best_ett_ratio": RATIO,
}


def scales_frame(answer: Answer) -> pd.DataFrame:
    """Return a row a number of accelerators of a projection."""
    return _with_attrs(answer, "points", typed(answer["points"], _SCALES))


def parts_frame(answer: Answer, group_by: Sequence[str]) -> pd.DataFrame:
    """Return a row a part of an explained change."""
    rows = [
        {
            **part["group"],
            **part,
            "change": part["points"] / 100,
            "jobs": ", ".join(job["job"] for job in part["jobs"]),
        }
        for part in answer["parts"]
    ]
    return _with_attrs(answer, "parts", typed(rows, {**dict.fromkeys(group_by, TEXT), **_PARTS}))


def gains_frame(answer: Answer) -> pd.DataFrame:
    """Return a row a scenario."""
    rows = [
        {
            **gain,
            "scenario": "; ".join(gain["scenarios"]),
            "change": gain["points"] / 100,
            **_bounds("change", gain["points_interval"], 100),
            **_bounds("gpu_hours", gain["gpu_hours_interval"], 1),
            "currency": answer["currency"],
            "assumption": " ".join(gain["assumptions"]),
        }
        for gain in answer["gains"]
    ]
    return _with_attrs(answer, "gains", typed(rows, _GAINS))


def effects_frame(answer: Answer) -> pd.DataFrame:
    """Return a row a marker and measure."""
    rows = [
        {**_marked(change["marker"]), **_effect(effect)}
        for change in answer["changes"]
        for effect in change["effects"]
    ]
    return _with_attrs(answer, "changes", typed(rows, _EFFECTS))


def advice_frame(answer: Answer, group_by: Sequence[str]) -> pd.DataFrame:
    """Return a row a group, or one for all where nothing was grouped by."""
    groups = answer["groups"] if group_by else [{"group": {}, **answer["total"]}]
    columns = {**dict.fromkeys(group_by, TEXT), **_ADVICE}
    return _with_attrs(answer, "groups", typed(map(_advised, groups), columns))


def compiles_frame(answer: Answer, group_by: Sequence[str]) -> pd.DataFrame:
    """Return a row a group, or one for all where nothing was grouped by."""
    whole = {"group": {}, "jobs_read": answer["jobs_read"], "other": False, **answer["total"]}
    groups = answer["groups"] if group_by else [whole]
    rows = [{**group["group"], **group} for group in groups]
    columns = {**dict.fromkeys(group_by, TEXT), **_COMPILES}
    return _with_attrs(answer, "groups", typed(rows, columns))


def sources_frame(answer: Answer) -> pd.DataFrame:
    """Return a row an input that varied."""
    rows = [
        {
            **source,
            "dims": ", ".join(map(str, source["dims"])),
            "functions": ", ".join(source["functions"]),
        }
        for source in answer["sources"]
    ]
    return _with_attrs(answer, "sources", typed(rows, _SOURCES))


def _with_attrs(answer: Answer, rows: str, frame: pd.DataFrame) -> pd.DataFrame:
    frame.attrs = {name: value for name, value in answer.items() if name != rows}
    return frame


def _bounds(name: str, interval: Answer | None, unit: float) -> dict[str, float | None]:
    low, high = (None, None) if interval is None else (interval["low"], interval["high"])
    return {
        f"{name}_low": None if low is None else low / unit,
        f"{name}_high": None if high is None else high / unit,
    }


def _marked(marker: Answer) -> dict[str, Any]:
    return {**marker, "marker": marker["id"], "marked_at": marker["at"]}


def _effect(effect: Answer) -> dict[str, Any]:
    sides = {
        f"{side}_{name}": value
        for side in ("before", "after")
        for name, value in effect[side].items()
    }
    bounds = {
        f"{name}_{bound}_seconds": value
        for name in ("difference", "median_difference")
        for bound, value in (effect[f"{name}_interval"] or {}).items()
    }
    return {**effect, **sides, **bounds}


def _advised(group: Answer) -> dict[str, Any]:
    """Flatten the advice for a group into columns."""
    best, current, gain = group["best"], group["current"] or {}, group["gain"] or {}
    band = group["flat_band"] or {}
    return {
        **group["group"],
        **group["n"],
        "save_seconds": group["save_seconds"]["value"],
        "mtbf_seconds": group["mtbf_seconds"]["value"],
        "interval_seconds": current.get("interval_seconds"),
        "wasted_ratio": current.get("wasted_ratio"),
        "best_interval_seconds": best["interval_seconds"],
        "best_interval_low_seconds": best["low"],
        "best_interval_high_seconds": best["high"],
        "best_wasted_ratio": best["wasted_ratio"],
        "flat_from_seconds": band.get("low"),
        "flat_to_seconds": band.get("high"),
        "gpu_hours": gain.get("gpu_hours"),
        "verdict": group["verdict"],
        "reason": group["reason"],
        "assumption": group["assumption"],
    }


_MOST_PARTS = 200
_MOST_CHANGES = 50


class Deciding(ServerAnswers):
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
        split: str = "category",
    ) -> pd.DataFrame:
        """Return the parts of the change from the base window, the largest first.

        ``change`` is of a ratio: -0.006 is 0.6 percentage points less. It sums to the whole
        change; ``part`` is a category (or what *split* names) or ``mix``, ``base`` and ``current``
        what it moved between.
        """
        base = window(base_begin, base_end)
        answer = self.ask(
            "/v1/fleet/explain",
            group_by=",".join(group_by),
            where=list(where),
            base_from=base["from"],
            base_to=base["to"],
            split=split,
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

        A scenario is a line such as ``cut pt2_compile by 40%`` or ``halve infra failures``.
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

    def compile_advice(
        self,
        *,
        group_by: Sequence[str] = (),
        where: Sequence[str] = (),
        begin: When = None,
        end: When = None,
    ) -> pd.DataFrame:
        """Return what would have saved each group compile time, the most to gain first.

        ``setting`` is the value of ``TORCH_COMPILE_DYNAMIC_SOURCES`` that would have saved
        ``dynamic_seconds``; missing where no input varied.
        """
        answer = self.ask(
            "/v1/fleet/compile-advice",
            group_by=",".join(group_by) or None,
            where=list(where),
            **window(begin, end),
        )
        return compiles_frame(answer, group_by)

    def varying_sources(self, job: str) -> pd.DataFrame:
        """Return the inputs of *job* that set off recompiles, most seconds first.

        ``attrs`` holds the rest of the advice: ``setting``, ``others``, ``uncached``,
        ``autotuned`` and their seconds.
        """
        return sources_frame(self.ask(f"/v1/jobs/{quote(job, safe='')}/compile-advice"))

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
