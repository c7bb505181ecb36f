"""The life of a job: attempts and their phases, how they ended, recoveries, runs, ranks."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ett_service.charts.gantt import Row, Stretch, gantt
from ett_service.charts.units import count, duration, percent
from ett_service.core.words import Category
from ett_service.pages.ask import Answer, Question
from ett_service.pages.panel import Cell, Panel, Table, table
from ett_service.pages.window import moment

_DAY_S = 86_400.0
_US = 1_000_000
_MOST_RANKS = 32
_MOST_SEGMENTS = 200


def gantt_panel(job: Answer, ledger: Answer, trace: Answer, question: Question) -> Panel:
    """Draw a row for each attempt over the job's life."""
    begin = job["started_at"]
    rows = _rows(job, ledger["segments"], _saves(trace)) if begin else []
    length = _seconds(job["ended_at"], begin) if begin else 0.0
    return Panel(
        "life",
        "Life of the job",
        chart=gantt(
            "life", f"Attempts of {job['job']} over time", rows, length, _axis(begin, length)
        )
        if rows
        else None,
        table=table(
            "begin (UTC)|category|period|attempt|#length",
            (
                (
                    moment(segment["start"]),
                    Cell(segment["category"], swatch=segment["category"]),
                    segment["period"],
                    "-" if segment["number"] is None else str(segment["number"]),
                    duration(segment["microseconds"] / _US),
                )
                for segment in ledger["segments"][:_MOST_SEGMENTS]
            ),
        ),
        after=(
            *_left_out(len(ledger["segments"])),
            "Ticks below a row are durable checkpoints.",
            "The dotted end of a row is unsaved: it was lost back to the last of them.",
        ),
        question=question,
    )


def _left_out(segments: int) -> tuple[str, ...]:
    if segments <= _MOST_SEGMENTS:
        return ()
    return (f"The table has the first {_MOST_SEGMENTS} of {segments:,} segments, the CSV all.",)


def _rows(
    job: Answer, segments: Sequence[Answer], saves: Mapping[int, Sequence[float]]
) -> list[Row]:
    begin = job["started_at"]
    origin = datetime.fromisoformat(begin).timestamp()
    stretches = _stretches(segments, job["attempts"], begin)
    rows = []
    for attempt in job["attempts"]:
        number = attempt["number"]
        saved = [at - origin for at in saves.get(number, ())]
        rows.append(
            Row(
                f"{number}: {attempt['outcome']}",
                stretches[number],
                ending=_ending(attempt),
                told=_told(attempt),
                unsaved=_unsaved(attempt, saved, begin),
                saves_s=saved,
                href=f"#attempt-{number}",
            )
        )
    return rows


def _stretches(
    segments: Sequence[Answer], attempts: Sequence[Answer], begin: str
) -> dict[int, list[Stretch]]:
    """Sort segments by attempt; the wait between two belongs to the later one's row."""
    begins = [attempt["started_at"] for attempt in attempts]
    of_attempt: dict[int, list[Stretch]] = defaultdict(list)
    for segment in segments:
        number = segment["number"]
        if number is None:
            number = min(bisect_right(begins, segment["start"]), len(begins) - 1)
        of_attempt[number].append(
            Stretch(
                _seconds(segment["start"], begin),
                _seconds(segment["end"], begin),
                Category(segment["category"]),
            )
        )
    return of_attempt


def _saves(trace: Answer) -> dict[int, list[float]]:
    """Return when durable checkpoints were reported, in Unix seconds, by attempt."""
    saves: dict[int, list[float]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "i" and event["name"] == "checkpoint_saved":
            saves[event["pid"] - 1].append(event["ts"] / _US)
    return saves


def _unsaved(attempt: Answer, saved: Sequence[float], begin: str) -> tuple[float, float] | None:
    if not attempt["unsaved_training_seconds"]:
        return None
    end = _seconds(attempt["ended_at"], begin)
    before = [at for at in saved if at <= end]
    return (max(before) if before else _seconds(attempt["started_at"], begin), end)


_MARKS = {"failed": "✕", "lost": "?", "preempted": "⇥", "cancelled": "■"}


def _ending(attempt: Answer) -> str:
    mark = _MARKS.get(attempt["outcome"])
    if mark is None:
        return ""
    return f"{mark} {attempt['cause'] or attempt['outcome']}"


def _told(attempt: Answer) -> str:
    evidence = attempt["evidence"]
    parts = [attempt["outcome"], attempt["origin"], attempt["cause"]]
    parts += [evidence["text"]] if evidence else []
    return ", ".join(part for part in parts if part)


def _seconds(instant: str, begin: str) -> float:
    difference = datetime.fromisoformat(instant) - datetime.fromisoformat(begin)
    return difference.total_seconds()


def _axis(begin: str, length_s: float) -> Callable[[float], str]:
    first = datetime.fromisoformat(begin).astimezone(UTC)
    form = "%b %d %H:%M" if length_s > _DAY_S else "%H:%M"
    return lambda seconds: f"{first + timedelta(seconds=seconds):{form}}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt, as a part of the page that opens."""

    number: int
    summary: str
    told: str
    verdict: str
    lines: Sequence[tuple[str, str]]
    stages: Table | None


def attempts(job: Answer, stages: Sequence[Answer]) -> list[Attempt]:
    """Return all attempts with the time of their phases and stages."""
    of_attempt: dict[int, list[Answer]] = defaultdict(list)
    for stage in stages:
        of_attempt[stage["number"]].append(stage)
    return [_attempt(attempt, of_attempt[attempt["number"]]) for attempt in job["attempts"]]


def _attempt(attempt: Answer, stages: Sequence[Answer]) -> Attempt:
    length = _seconds(attempt["ended_at"], attempt["started_at"])
    cause = f" ({attempt['origin']}: {attempt['cause']})" if attempt["cause"] else ""
    verdict = attempt["verdict"]
    return Attempt(
        attempt["number"],
        f"Attempt {attempt['number']}: {attempt['outcome']}{cause}, {duration(length)}",
        _told(attempt),
        f"Set by {verdict['made_by']}: {verdict['why']}" if verdict else "",
        (
            ("began", moment(attempt["started_at"])),
            ("ended", moment(attempt["ended_at"])),
            ("launch", attempt["launch"] or "-"),
            ("accelerators", count(attempt["gpus"])),
            ("code version", attempt["code_version"] or "-"),
            ("last step", count(attempt["last_step"])),
            ("unsaved training", duration(attempt["unsaved_training_seconds"])),
            ("repeated by", attempt["basis"]),
            ("reason", attempt["reason"] or "-"),
        ),
        _stage_table(stages),
    )


def _stage_table(stages: Sequence[Answer]) -> Table | None:
    return table(
        "phase|stage|#spans|#inclusive|#own|#slowest rank over median",
        (
            (
                stage["phase"],
                stage["stage"] or "(whole phase)",
                count(stage["spans"]),
                duration(stage["inclusive_seconds"]),
                duration(stage["exclusive_seconds"]),
                duration(stage["skew_seconds"]),
            )
            for stage in stages
        ),
    )


def stage_panel(stages: Answer, question: Question) -> Panel | None:
    """Show where compiles spent their time, over all attempts."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for stage in stages["stages"]:
        if stage["phase"] == "pt2_compile":
            amounts = sums[stage["stage"] or "(whole phase)"]
            amounts[0] += stage["spans"]
            amounts[1] += stage["inclusive_seconds"]
            amounts[2] += stage["exclusive_seconds"]
    rows = [
        (name, count(int(spans)), duration(inclusive), duration(own))
        for name, (spans, inclusive, own) in sums.items()
    ]
    if not rows:
        return None
    return Panel(
        "compile",
        "Compile, by stage",
        table=table("stage|#spans|#inclusive|#own", rows),
        after=("Sums over all attempts, of the lead rank. Own time has no nested stage open.",),
        question=question,
    )


def recoveries(job: Answer, question: Question) -> Panel | None:
    """Show how long each recovery took, and what it was made of."""
    rows = [
        (
            f"{each['interrupted']} to {'?' if each['resumed'] is None else each['resumed']}",
            each["outcome"],
            moment(each["started_at"]),
            Cell(
                duration(each["seconds"]) + ("" if each["resumed"] is not None else " so far"),
                is_faint=each["resumed"] is None,
            ),
            ", ".join(f"{name} {duration(length)}" for name, length in each["parts"].items()),
            duration(each["stalled_seconds"]),
            duration(each["repeated_seconds"]),
        )
        for each in job["recoveries"]
    ]
    if not rows:
        return None
    return Panel(
        "recoveries",
        "Recoveries",
        table=table(
            "attempts|ended|began (UTC)|#time to recover|made of|#silent before|#repeated after",
            rows,
        ),
        after=("From the end of a loop to the begin of the next attempt's loop. Parts sum to it.",),
        question=question,
    )


def runs(job: Answer, question: Question) -> Panel | None:
    """Show the runs of a job that began anew under its name."""
    if job["run_count"] < 2:  # noqa: PLR2004 -- a single run is the job
        return None
    rows = [
        (
            str(run["number"]),
            run["state"],
            moment(run["started_at"]),
            duration(run["e2e_seconds"]),
            percent(run["ett_ratio"]),
            duration(run["time_to_start_seconds"]),
            count(run["failures"]),
        )
        for run in job["runs"]
    ]
    return Panel(
        "runs",
        "Runs",
        table=table("run|state|began (UTC)|#E2E|#ETT% by wall time|#time to start|#failures", rows),
        question=question,
    )


def rank_panel(ranks: Answer, question: Question) -> Panel | None:
    """Show what ranks and hosts take for a step, the slowest first."""
    listed = sorted(ranks["ranks"], key=lambda rank: -rank["step_seconds"])
    if not listed:
        return None
    rows = [
        (
            rank["host"] or "-",
            "(host)" if rank["rank"] is None else str(rank["rank"]),
            str(rank["number"]),
            _short(rank["step_seconds"]),
            _short(rank["data_wait_seconds"]),
            count(rank["steps"]),
        )
        for rank in listed[:_MOST_RANKS]
    ]
    left = len(listed) - len(rows)
    return Panel(
        "ranks",
        "Ranks and hosts",
        table=table("host|rank|attempt|#a step|#of it waiting for data|#steps", rows),
        after=(f"{count(left)} faster ones are not shown.",) if left else (),
        question=question,
    )


def _short(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3g} s"
