"""Why a job's ETT% is what it is: its ledger, what would gain most, and what is in doubt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ett_service.charts.bars import Bar, stacked_bars
from ett_service.charts.units import (
    count,
    duration,
    gpu_hours,
    money,
    percent,
    points,
)
from ett_service.core.words import Category
from ett_service.pages.ask import Answer, Question
from ett_service.pages.links import part_page
from ett_service.pages.panel import Cell, Panel, table
from ett_service.pages.window import moment
from ett_service.report.inputs import share

_HINTS = {
    Category.SCHEDULING: "Smaller or more flexible requests are placed sooner.",
    Category.HARDWARE_SETUP: "Keep nodes warm and images cached; pull them before the launch.",
    Category.LAUNCHER_INIT: "Start its slowest part earlier, or cache what it makes.",
    Category.PT2_COMPILE: "A compile cache that attempts share saves most of every start but one.",
    Category.RECOMPILE: "Mark what varies as dynamic: each new shape compiles again.",
    Category.EVALUATION: "Evaluate on other accelerators, or less often.",
    Category.STALLED: "Hangs end sooner with a watchdog; starved loops need more loaders.",
    Category.SHUTDOWN: "Publish the model after the accelerators are released.",
    Category.RESTART_WAIT: "Restart inside the allocation, or hold spare nodes.",
    Category.UNATTRIBUTED: "No phase was reported here: record this part of the trainer.",
}

# Of what saves and failures waste, by what the interval should be. A shorter one repeats less and
# blocks more.
_OF_SAVES: Mapping[Category, Mapping[str | None, str]] = {
    Category.REPEATED_TRAINING: {
        None: "Save more often: a failure repeats what was not saved.",
        "keep": "It saves about as often as is best, so only fewer failures repeat less.",
        "save_more_often": "Save every {best} instead of {now}: a failure repeats less, saves "
        "block more, and in sum {gain} of WTT% is gained.",
        "save_less_often": "Only fewer failures repeat less: it saves every {now}, and every "
        "{best} is best, as it blocks less.",
    },
    Category.CHECKPOINT_BLOCKING: {
        None: "Save asynchronously, or less often.",
        "keep": "Save asynchronously: it saves about as often as is best.",
        "save_more_often": "Save asynchronously. Saving less often would lose more: it saves "
        "every {now}, and every {best} is best.",
        "save_less_often": "Save every {best} instead of {now}: saves block less, a failure "
        "repeats more, and in sum {gain} of WTT% is gained.",
    },
}

_PAGES: Mapping[Category, tuple[str, str]] = {
    Category.HARDWARE_SETUP: ("stages", "Its stages"),
    Category.LAUNCHER_INIT: ("stages", "Its stages"),
    Category.PT2_COMPILE: ("compile", "Its compiles"),
    Category.RECOMPILE: ("compile", "Its compiles"),
    Category.SHUTDOWN: ("stages", "Its stages"),
}
"""Which page tells more of a category."""


def ledger_panel(job: Answer, question: Question) -> Panel:
    """Draw the job's whole time as one bar, with its table."""
    spent = {Category(name): seconds for name, seconds in job["categories"].items()}
    held = job["gpu_seconds"] or {}
    costs, currency = costs_of(job)
    return Panel(
        "ledger",
        "Ledger",
        chart=stacked_bars("ledger", "E2E wall time by category", [Bar("", spent)])
        if job["e2e_seconds"]
        else None,
        table=table(
            f"category|#length|#share of E2E|#GPU-hours{'|#cost' if costs else ''}",
            (
                (
                    Cell(category, swatch=category),
                    duration(seconds),
                    percent(share(seconds, job["e2e_seconds"])),
                    gpu_hours(held.get(category)),
                    *([money(costs.get(category), currency)] if costs else []),
                )
                for category, seconds in spent.items()
                if seconds
            ),
        ),
        after=("By wall time. Every second of E2E is in exactly one category.",),
        question=question.of("categories"),
        is_table_open=True,
    )


def costs_of(job: Answer) -> tuple[Mapping[str, float | None], str]:
    """Return the cost by category; empty where any of the time has no price."""
    cost = job["cost"]
    if cost is None or cost["total"] is None:
        return {}, ""
    return cost["by_category"], cost["currency"]


def speed_panel(job: Answer, question: Question) -> Panel | None:
    """Tell how much of effective training was as fast as the job can be, and waits for data."""
    if job["effective_at_reference_seconds"] is None and job["data_wait"] is None:
        return None
    parts = {
        "at reference speed": job["effective_at_reference_seconds"],
        "slowed": job["slowed_seconds"],
        "not measured": job["speed_unmeasured_seconds"],
    }
    whole = job["categories"].get(Category.EFFECTIVE_TRAINING, 0.0)
    return Panel(
        "speed",
        "Speed of training",
        before=(_data_wait(job),),
        table=table(
            "effective training|#length|#share",
            (
                (
                    name,
                    duration(seconds),
                    percent(None if seconds is None else share(seconds, whole)),
                )
                for name, seconds in parts.items()
            ),
        ),
        after=("By wall time. ETT% counts all three.",),
        question=question,
        is_table_open=True,
    )


def _data_wait(job: Answer) -> str:
    if job["data_wait"] is None:
        return "No attempt reports waits for data."
    reporting = sum(each["data_wait"] is not None for each in job["attempts"])
    return (
        f"Loops waited for data for {percent(job['data_wait']['ratio'])} of their time "
        f"(n={count(reporting)} attempts that report it)."
    )


@dataclass(frozen=True, slots=True)
class Loss:
    """What a category takes of ETT%, and what would help."""

    category: Category
    points: str
    amount: str
    hint: str
    lead: Cell | None  #: to what tells more


def losses(job: Answer, advice: Any, project: str) -> list[Loss]:
    """Return what keeps ETT% from the whole, the largest first."""
    held = job["gpu_seconds"] or {}
    ranked = sorted(
        (
            (Category(name), seconds)
            for name, seconds in job["categories"].items()
            if seconds > 0 and name != Category.EFFECTIVE_TRAINING
        ),
        key=lambda part: -part[1],
    )
    return [
        Loss(
            category,
            points(-seconds / job["e2e_seconds"]),
            duration(seconds)
            + (f", {gpu_hours(held[category])} GPU-hours" if held.get(category) else ""),
            _hint(category, advice),
            _lead(category, job, project),
        )
        for category, seconds in ranked
    ]


def _hint(category: Category, advice: Any) -> str:
    if category not in _OF_SAVES:
        return _HINTS[category]
    verdict = advice["verdict"]
    hint = _OF_SAVES[category][verdict]
    if verdict is None:
        return hint
    return hint.format(
        now=duration(advice["current"]["interval_seconds"]),
        best=duration(advice["best"]["interval_seconds"]),
        gain=points(advice["gain"]["wasted_ratio"]).removeprefix("+"),
    )


def _lead(category: Category, job: Answer, project: str) -> Cell | None:
    if category not in _PAGES or job["pruned_at"]:  # which has neither stages nor compiles
        return None
    part, text = _PAGES[category]
    return Cell(text, href=part_page(job["job"], part, project))


_MOST_GAPS = 8
_COUNTS = (
    ("inferred_ends", "ends of phases were inferred"),
    ("ends_without_begin", "ends came without a begin"),
    ("clamped_spans", "spans were clamped"),
    ("clock_flags", "clocks were corrected"),
    ("unreported_restarts", "restarts were not reported"),
    ("restart_counts_disagree", "restart counts disagree"),
    ("steps_went_back", "times steps went back without a restore"),
    ("attempts_missing_hooks", "attempts miss a hook of the client"),
)


def quality(job: Answer, question: Question) -> Panel:
    """Say what was inferred, and what is missing."""
    answer = job["quality"]
    left = len(answer["gaps"]) - _MOST_GAPS
    notes = [f"{count(answer[name])} {text}." for name, text in _COUNTS if answer[name]]
    if answer["missing_phases"]:
        notes.append(f"Never reported: {', '.join(answer['missing_phases'])}.")
    if answer["gpus_unknown"]:
        notes.append("Accelerators are unknown: the job has no weight in fleet numbers.")
    return Panel(
        "quality",
        "Data quality",
        before=(
            f"{percent(answer['unattributed_ratio'])} of E2E is under no phase.",
            *(notes or ["Nothing had to be inferred."]),
        ),
        table=table(
            "kind|attempt|begin (UTC)|detail",
            (
                (
                    gap["kind"],
                    "-" if gap["number"] is None else str(gap["number"]),
                    moment(gap["started_at"]),
                    gap["detail"],
                )
                for gap in answer["gaps"][:_MOST_GAPS]
            ),
        ),
        after=(f"{count(left)} more are in the CSV.",) if left > 0 else (),
        question=question.of("quality.gaps"),
    )


def definitions(job: Answer, question: Question) -> Panel:
    """Show what other definitions make of the same ledger."""
    return Panel(
        "others",
        "By other definitions",
        table=table(
            "definition|#value",
            (
                (name.replace("_", " "), percent(number))
                for name, number in job["definitions"].items()
            ),
        ),
        question=question.of("definitions"),
    )
