"""The life of a job: attempts and their time, how they ended, recoveries, runs."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from zlib import crc32

import msgspec

from ett_service.charts.gantt import CategorySpan, Row, gantt
from ett_service.charts.svg import Markup
from ett_service.charts.units import count, duration, e2e, percent, ratio_of_e2e
from ett_service.core.words import CATEGORY_BY_NAME, FAILURES, Cause, Origin, Outcome
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import attempt_page
from ett_service.pages.panel import Cell, Panel, table
from ett_service.pages.window import moment

_DAY_S, _WEEK_S = 86_400.0, 7 * 86_400.0
_US = 1_000_000
_MOST_SEGMENTS = 200


def unix(instant: str) -> float:
    """Return the seconds since the Unix epoch of an instant of the API."""
    return datetime.fromisoformat(instant).timestamp()


def axis(begin: str, length_s: float) -> Callable[[float], str]:
    """Return what names a place on an axis that begins at an instant."""
    first = datetime.fromisoformat(begin).astimezone(UTC)
    form = "%b %d" if length_s > _WEEK_S else "%b %d %H:%M" if length_s > _DAY_S else "%H:%M"
    return lambda seconds: f"{first + timedelta(seconds=seconds):{form}}"


def since_midnight(begin: str) -> float:
    """Return the time of day of an instant, in seconds."""
    return unix(begin) % _DAY_S


def gantt_panel(
    job: Answer, ledger: Answer, saved: Answer, question: Question, project: str = ""
) -> Panel:
    """Draw a row for each attempt over the job's life."""
    begin, segments = job["started_at"], ledger["segments"]
    length = unix(job["ended_at"]) - unix(begin) if begin else 0.0
    rows = _rows(job, segments, _saves(saved["checkpoints"]), project) if begin else []
    title = f"Attempts of {job['job']} over time"
    return Panel(
        "life",
        "Life of the job",
        chart=_gantt(title, rows, begin, length) if rows else None,
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
                for segment in segments[:_MOST_SEGMENTS]
            ),
        ),
        after=(
            *_left_out(len(segments)),
            "A row is an attempt; its name leads to its stages.",
            "Ticks below a row are durable checkpoints.",
            "The dotted end of a row is unsaved: it was lost back to the last of them.",
        ),
        question=question,
        is_wide=True,
    )


def _gantt(title: str, rows: Sequence[Row], begin: str, length: float) -> Markup:
    return gantt("life", title, rows, length, axis(begin, length), since_midnight(begin))


def pruned_panel(job: Answer, question: Question) -> Panel:
    """Say what is gone of a job whose record was pruned, in place of its life."""
    day = moment(job["pruned_at"])
    gone = f"Its events and segments were pruned on {day} UTC, so its life cannot be drawn."
    return Panel(
        "life",
        "Life of the job",
        before=(gone, "All numbers on this page are what they were: they are kept."),
        question=question,
        is_wide=True,
    )


def _left_out(segments: int) -> tuple[str, ...]:
    if segments <= _MOST_SEGMENTS:
        return ()
    return (f"The table has the first {_MOST_SEGMENTS} of {segments:,} segments, the CSV all.",)


def _rows(
    job: Answer, segments: Sequence[Answer], saves: Mapping[int, Sequence[float]], project: str
) -> list[Row]:
    origin = unix(job["started_at"])
    stretches = _stretches(segments, job["attempts"], origin)
    rows = []
    for attempt in job["attempts"]:
        number = attempt["number"]
        saved = [at - origin for at in saves.get(number, ())]
        rows.append(
            Row(
                f"{number}: {attempt['outcome']}",
                stretches[number],
                ending=_ending(attempt),
                evidence=evidence(attempt),
                unsaved=_unsaved(attempt, saved, origin),
                saves_s=saved,
                href=attempt_page(job["job"], number, project),
                mark=f"{crc32(msgspec.json.encode(attempt)):x}",
            )
        )
    return rows


def _stretches(
    segments: Iterable[Answer], attempts: Sequence[Answer], origin: float
) -> dict[int, list[CategorySpan]]:
    """Sort segments by attempt; the wait between two belongs to the later one's row."""
    begins = [attempt["started_at"] for attempt in attempts]
    of_attempt: dict[int, list[CategorySpan]] = defaultdict(list)
    for segment in segments:
        number = segment["number"]
        if number is None:
            number = min(bisect_right(begins, segment["start"]), len(begins) - 1)
        start_s = unix(segment["start"]) - origin
        end_s = start_s + segment["microseconds"] / _US
        of_attempt[number].append(
            CategorySpan(start_s, end_s, CATEGORY_BY_NAME[segment["category"]])
        )
    return of_attempt


def _saves(checkpoints: Iterable[Answer]) -> dict[int, list[float]]:
    """Return when checkpoints became durable, in Unix seconds, by attempt."""
    saves: dict[int, list[float]] = defaultdict(list)
    for checkpoint in checkpoints:
        saves[checkpoint["number"]].append(unix(checkpoint["saved_at"]))
    return saves


def _unsaved(attempt: Answer, saved: Sequence[float], origin: float) -> tuple[float, float] | None:
    if not attempt["unsaved_training_seconds"]:
        return None
    end = unix(attempt["ended_at"]) - origin
    before = [at for at in saved if at <= end]
    return (max(before) if before else unix(attempt["started_at"]) - origin, end)


_MARKS = {"failed": "✕", "lost": "?", "preempted": "⇥", "cancelled": "■"}


def _ending(attempt: Answer) -> str:
    mark = _MARKS.get(attempt["outcome"])
    if mark is None:
        return ""
    return f"{mark} {attempt['cause'] or attempt['outcome']}"


def evidence(attempt: Answer) -> str:
    """Say how an attempt ended, and what shows it, each once."""
    outcome, seen = attempt["outcome"], attempt["evidence"]
    said = {None, f"outcome={outcome}"}
    if outcome == Outcome.PREEMPTED:
        said |= {Origin.PREEMPTION, Cause.PREEMPTION}
    parts = (outcome, attempt["origin"], attempt["cause"], seen and seen["text"])
    return ", ".join(part for part in dict.fromkeys(parts) if part not in said)


def attempts(job: Answer, question: Question, project: str) -> Panel:
    """List the attempts, each with the way to its stages."""
    return Panel(
        "attempts",
        "Attempts",
        table=table(
            "attempt|ended|why|evidence|began (UTC)|#length|#unsaved training|#accelerators"
            "|code version",
            (_attempt(job["job"], attempt, project) for attempt in job["attempts"]),
        ),
        question=question,
        is_wide=True,
    )


def _attempt(job: str, attempt: Answer, project: str) -> tuple[Cell | str, ...]:
    seen = attempt["evidence"]
    return (
        Cell(str(attempt["number"]), href=attempt_page(job, attempt["number"], project)),
        attempt["outcome"],
        f"{attempt['origin']}: {attempt['cause']}" if attempt["cause"] else "-",
        seen["text"] if seen else "-",
        moment(attempt["started_at"]),
        duration(unix(attempt["ended_at"]) - unix(attempt["started_at"])),
        duration(attempt["unsaved_training_seconds"]),
        count(attempt["gpus"]),
        attempt["code_version"] or "-",
    )


def recoveries(job: Answer, question: Question) -> Panel | None:
    """Show how each loop that was interrupted went on, and what the time until then went on."""
    listed = job["recoveries"]
    if not listed:
        return None
    parts = list(dict.fromkeys(name for each in listed for name in each["parts"]))
    recovered = sum(map(is_recovery, listed))
    return Panel(
        "recoveries",
        "From each ending to the next loop",
        table=table(
            "|".join(
                (
                    "attempts|ended|began (UTC)|#until the next loop",
                    *(f"#{name}" for name in parts),
                    "#silent before|#repeated after",
                )
            ),
            (_recovery(each, parts) for each in listed),
        ),
        after=(
            "From the end of a loop to the begin of the next attempt's loop. Parts sum to it.",
            f"{count(recovered)} of {count(len(listed))} resumed after a failure.",
            "Only those count in time to recover.",
        ),
        question=question.of("recoveries"),
        is_wide=True,
    )


def is_recovery(each: Answer) -> bool:
    """Tell whether it counts in time to recover."""
    return each["resumed"] is not None and each["outcome"] in FAILURES


def _recovery(each: Answer, parts: Sequence[str]) -> tuple[Cell | str, ...]:
    is_over = each["resumed"] is not None
    length = duration(each["seconds"]) + ("" if is_over else " so far")
    return (
        f"{each['interrupted']} to {each['resumed'] if is_over else '?'}",
        each["outcome"],
        moment(each["started_at"]),
        Cell(length, is_faint=not is_over),
        *(duration(each["parts"].get(name)) for name in parts),
        duration(each["stalled_seconds"]),
        duration(each["repeated_seconds"]),
    )


_PARTS = {
    "queue": "queued before",
    "scheduling": "scheduling",
    "starting": "starting",
    "recovering": "recovering",
}


def waits(job: Answer, question: Question) -> Panel | None:
    """Tell whose wait it was until the loop, and from loop to loop."""
    parts = job["waits"]
    if not parts:
        return None
    sums: Counter[str] = Counter()
    for owners in parts.values():
        sums.update(owners)
    return Panel(
        "waits",
        "Whose wait it was",
        table=table(
            "|".join(("owner", *(f"#{_PARTS[part]}" for part in parts))),
            (
                (owner, *(duration(owners.get(owner)) for owners in parts.values()))
                for owner, _ in sums.most_common()
            ),
        ),
        after=("By wall time. Every second has one owner.",),
        question=question.of(",".join(f"waits.{part}" for part in parts)),
    )


def exclusions(job: Answer, question: Question) -> Panel | None:
    """List the time of a job that people left out of the fleet's numbers."""
    if not job["exclusions"]:
        return None
    return Panel(
        "exclusions",
        "Left out of the fleet's numbers",
        table=table(
            "from (UTC)|to (UTC)|by|why",
            (
                (
                    moment(each["from"]) if each["from"] else "(its begin)",
                    moment(each["to"]) if each["to"] else "(its end)",
                    each["made_by_name"] or each["made_by"],
                    each["why"],
                )
                for each in job["exclusions"]
            ),
        ),
        after=("The numbers of this page count it.",),
        question=question.of("exclusions"),
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
            duration(e2e(run)),
            percent(ratio_of_e2e(run, "ett_ratio")),
            duration(run["time_to_start_seconds"]),
            count(run["failures"]),
            duration(run["idle_before_seconds"]),
        )
        for run in job["runs"]
    ]
    return Panel(
        "runs",
        "Runs",
        table=table(
            "run|state|began (UTC)|#E2E|#ETT% by wall time|#time to start|#failures|#idle before",
            rows,
        ),
        after=(f"Between runs: {duration(job['between_runs_seconds'])}, in no E2E.",),
        question=question.of("runs"),
    )
