"""The first sentence, the headline numbers, and their trend."""

from collections.abc import Callable
from datetime import datetime

from ett_service.charts.trend import Event, Point, trend
from ett_service.charts.units import count, duration, gpu_hours, money, percent, points
from ett_service.report.document import Answer, Section, Week, table
from ett_service.report.inputs import Gathered, ett_ratio, median_job, name_of

_SEEN = 0.0005  # of a ratio: what rounds to 0.0 points is no change to talk about


def sentence(gathered: Gathered) -> str:
    """Say in one sentence how the fleet did, against its target and the week before, and why."""
    total = gathered.now["total"]
    if not total["jobs"]:
        return f"No job ran in week {gathered.week.name}."
    return course_of(total, gathered.before["total"], gathered.change, against="last week")


def course_of(total: Answer, before_total: Answer, change: Answer, *, against: str) -> str:
    """Say in one sentence how a fleet that had jobs did, against its target and an earlier window.

    *change* is the explanation of the difference; *against* names the earlier window.
    """
    now, before = ett_ratio(total), ett_ratio(before_total)
    if now is None:
        wall = percent(total["ett_ratio_wall"])
        return f"ETT {wall} by wall time: no job reports its accelerators."
    clauses = [f"ETT {percent(now)}", *_against_target(total["target"])]
    if before is None:
        return ", ".join(clauses) + "."
    why = _why(change)
    clauses.append(_against(now - before, against))
    return ", ".join(clauses) + (f"; {why}." if why else ".")


def _against_target(target: Answer | None) -> list[str]:
    if target is None:
        return []
    distance = target["distance"]
    if abs(distance) < _SEEN:
        return ["on target"]
    side = "under" if distance < 0 else "over"
    return [f"{abs(distance) * 100:.1f} points {side} target"]


def _against(change: float, earlier: str) -> str:
    if abs(change) < _SEEN:
        return f"as {earlier}"
    return f"{change * 100:+.1f} vs {earlier}"


def _why(answer: Answer) -> str:
    change = answer["change_points"]
    same_way = [part for part in answer["parts"] if part["points"] * change > 0]
    if abs(change) < _SEEN * 100 or not same_way:
        return ""
    largest = max(same_way, key=lambda part: abs(part["points"]))
    return f"{part_name(largest, answer)} explains {abs(largest['points']):.1f}"


def part_name(part: Answer, answer: Answer) -> str:
    """Say what a part of an explained change is: a cohort's category, or the cohort's weight."""
    cohort = name_of(part, answer["group_by"])
    if part["part"] == "mix":
        return f"{'more' if part['current'] > part['base'] else 'less'} of {cohort} (mix)"
    return f"{part['part']} in {cohort}" if cohort else str(part["part"])


_COLUMNS = "|#this week|#last week|#change"


def headline(gathered: Gathered) -> Section:
    """Compare the week's numbers by accelerators with those of the week before."""
    now, before = gathered.now["total"], gathered.before["total"]
    rows = [
        _ratio("ETT%", "ett_ratio", now, before),
        _ratio("slowed, of effective training", "slowed_ratio", now, before),
        _data_wait(now, before),
        _row("GPU-hours", lambda total: gpu_hours(total["gpu_seconds"]), now, before),
        _row("cost", _cost, now, before),
        *_productivity(now, before),
    ]
    return Section("Headline, by accelerators", _targets(now), table=table(_COLUMNS, rows))


def by_wall_time(gathered: Gathered) -> Section:
    """Do the same with those that count every second once."""
    now, before = gathered.now["total"], gathered.before["total"]
    rows = [
        _ratio("ETT%", "ett_ratio_wall", now, before),
        _ratio("WTT%", "wasted_ratio", now, before),
        _row("queue wait", lambda total: duration(total["queue_wait_seconds"]), now, before),
        _row("between runs, in no E2E", _between_runs, now, before),
        _row("unsaved training", _unsaved, now, before),
    ]
    return Section("By wall time", table=table(_COLUMNS, rows))


def by_job(gathered: Gathered) -> Section:
    """Do the same with those that count every job once."""
    now, before = gathered.now["total"], gathered.before["total"]
    rows = [
        _changed("ETT% of the median job", median_job(now), median_job(before)),
        _row("jobs", lambda total: count(total["jobs"]), now, before),
        _row("attempts", lambda total: count(total["attempts"]), now, before),
    ]
    return Section("Job by job", table=table(_COLUMNS, rows))


def _ratio(name: str, member: str, now: Answer, before: Answer) -> tuple[str, ...]:
    return _changed(name, _value(now, member), _value(before, member))


def _changed(name: str, new: float | None, old: float | None) -> tuple[str, ...]:
    change = None if new is None or old is None else new - old
    return name, percent(new), percent(old), points(change)


def _value(total: Answer, member: str) -> float | None:
    value: float | None = total[member] if total["jobs"] else None
    return value


def _row(name: str, shown: Callable[[Answer], str], now: Answer, before: Answer) -> tuple[str, ...]:
    return name, shown(now), shown(before), ""


def _cost(total: Answer) -> str:
    return money(total["cost"]["total"], total["cost"]["currency"])


def _unsaved(total: Answer) -> str:
    return duration(total["unsaved_training_seconds"])


def _data_wait(now: Answer, before: Answer) -> tuple[str, ...]:
    name, *values, change = _ratio("loops waiting for data", "data_wait_ratio", now, before)
    reporting = [count(total["data_wait_attempts"]) for total in (now, before)]
    shown = (f"{value} (n={n})" for value, n in zip(values, reporting, strict=True))
    return f"{name}, by accelerators (n: attempts that report it)", *shown, change


def _between_runs(total: Answer) -> str:
    return duration(total["between_runs_seconds"])


def _productivity(now: Answer, before: Answer) -> list[tuple[str, ...]]:
    if now["productivity"]["mfu"] is None and before["productivity"]["mfu"] is None:
        return []
    return [
        _ratio(
            "MFU", "mfu", *({**total["productivity"], **_lived(total)} for total in (now, before))
        ),
        _ratio(
            "useful share of the peak (ETT% x MFU)",
            "useful_ratio",
            *({**total["productivity"], **_lived(total)} for total in (now, before)),
        ),
    ]


def _lived(total: Answer) -> dict[str, int]:
    return {"jobs": total["jobs"]}


def _targets(now: Answer) -> tuple[str, ...]:
    if now["target"] is None:
        return ()
    return (f"The target is {percent(now['target']['ett_ratio'])}.",)


def course(gathered: Gathered) -> Section:
    """Draw ETT% of the last weeks, with the target and what was marked this week."""
    weeks = [(_week(point["start"]), ett_ratio(point), point) for point in gathered.trend["points"]]
    target = gathered.now["total"]["target"]
    chart = trend(
        "trend",
        f"ETT% of {len(weeks)} weeks",
        [Point(week.name, ratio) for week, ratio, _ in weeks],
        target=target and target["ett_ratio"],
        events=_events(gathered, [week for week, _, _ in weeks]),
    )
    rows = [
        (
            week.name,
            percent(ratio),
            gpu_hours(point["gpu_seconds"]),
            count(point["jobs"]),
            count(point["failures"]["total"]),
        )
        for week, ratio, point in weeks
    ]
    return Section(
        f"Trend of {len(weeks)} weeks",
        chart=chart,
        table=table("week|#ETT%|#GPU-hours|#jobs|#failures", rows),
    )


def _week(start: str) -> Week:
    return Week.holding(datetime.fromisoformat(start))


def _events(gathered: Gathered, weeks: list[Week]) -> list[Event]:
    """Place the first deploy of the week; a chart of weeks has no room for more."""
    deploys = [marker for marker in gathered.markers["markers"] if marker["kind"] == "deploy"]
    if not deploys or gathered.week not in weeks:
        return []
    name = deploys[0]["title"] if len(deploys) == 1 else f"{len(deploys)} deploys"
    return [Event(weeks.index(gathered.week), name)]
