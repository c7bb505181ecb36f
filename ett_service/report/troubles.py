"""What failed in the week, and how long starts, recoveries and saves took."""

from collections.abc import Sequence

from ett_service.charts.units import count, duration, percent
from ett_service.report.gather import Gathered
from ett_service.report.groups import share
from ett_service.report.page import Answer, Section, table

_SPREADS = {
    "time to start": "time_to_start",
    "time to recover": "time_to_recover",
    "checkpoint blocking": "checkpoint_blocking",
}
_FEW = 8  # fewer values than these say little


def failures(gathered: Gathered) -> Section:
    """Rank the causes of failures, and tell how often there was one."""
    now, before = gathered.now["total"], gathered.before["total"]
    whole = now["failures"]["total"]
    last = {_cause(found): found["count"] for found in before["failures"]["by"]}
    ranked = sorted(now["failures"]["by"], key=lambda found: (-found["count"], _cause(found)))
    rows = [
        (
            _cause(found),
            count(found["count"]),
            percent(share(found["count"], whole)),
            count(last.get(_cause(found), 0)),
        )
        for found in ranked
    ]
    return Section(
        "Failures by cause",
        (_rates(now, whole),),
        table=table("cause|#failures|#of all|#last week", rows),
    )


def _cause(found: Answer) -> str:
    return f"{found['origin']}: {found['cause']}"


def _rates(now: Answer, whole: int) -> str:
    if not whole:
        low = duration(now["mtbf"]["low"])
        return f"Nothing failed: the mean time between failures is at least {low}."
    found, mtbf = now["failures"], now["mtbf"]
    said = (
        f"{count(whole)} failures, {count(found['infra'])} of them infra"
        f"{_per(found['per_1000_gpu_hours'], '1,000 GPU-hours')}"
        f"{_per(found['per_1000_node_days'], '1,000 node-days')}. "
        f"Mean time between failures {duration(mtbf['seconds'])}"
    )
    ends = (duration(mtbf["low"]), duration(mtbf["high"]))
    return f"{said} ({mtbf['confidence']:.0%} interval: {ends[0]} to {ends[1]})."


def _per(rate: float | None, unit: str) -> str:
    return "" if rate is None else f", {rate:.2f} per {unit}"


def times(gathered: Gathered) -> Section:
    """Tell the distributions of what takes time around training, beside last week's medians."""
    now, before = gathered.now["total"], gathered.before["total"]
    rows = [_spread(name, now[member], before[member]) for name, member in _SPREADS.items()]
    rows += [
        _spread(f"phase {phase}", spread, before["phases"].get(phase, _NOTHING))
        for phase, spread in now["phases"].items()
    ]
    shown = [row for row in rows if row[1] != "0"]
    few = [row[0] for row in shown if int(row[1].replace(",", "")) < _FEW]
    return Section(
        "How long things took",
        table=table("|#n|#mean|#p50|#p90|#p99|#last week's p50", shown),
        after=_little(few),
    )


_NOTHING: Answer = {"count": 0, "mean": None, "p50": None, "p90": None, "p99": None}


def _spread(name: str, now: Answer, before: Answer) -> tuple[str, ...]:
    values = [duration(now[member]) for member in ("mean", "p50", "p90", "p99")]
    return (name, count(now["count"]), *values, duration(before["p50"]))


def _little(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    return (f"Fewer than {_FEW} values say little: {', '.join(names)}.",)
