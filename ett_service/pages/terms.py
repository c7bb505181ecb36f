"""What the words on pages mean, in one sentence each; ``docs/definitions.md`` has them in full."""

from collections.abc import Mapping

from ett_service.core.words import Category

CATEGORIES: Mapping[Category, str] = {
    Category.SCHEDULING: "The scheduler has the job and no hardware is allocated yet.",
    Category.HARDWARE_SETUP: "Hardware is allocated and made ready before the launcher starts.",
    Category.LAUNCHER_INIT: "The launcher starts processes, builds the model and loads data.",
    Category.PT2_COMPILE: "PyTorch compiles before the first progress of an attempt.",
    Category.EFFECTIVE_TRAINING: "The loop trains on new data: the only effective category.",
    Category.REPEATED_TRAINING: "The loop trains again on what was lost with a failure: wasted.",
    Category.CHECKPOINT_BLOCKING: "The loop stands still while a checkpoint is saved: wasted.",
    Category.RECOMPILE: "PyTorch compiles again inside the loop: wasted.",
    Category.EVALUATION: "The model is evaluated and consumes no new training data: wasted.",
    Category.STALLED: "The loop hangs, starves for data, or is silent before its end: wasted.",
    Category.SHUTDOWN: "After the last loop: the last checkpoint, publishing, tearing down.",
    Category.RESTART_WAIT: "Between two attempts, no process of the job runs.",
    Category.UNATTRIBUTED: "Inside an attempt, and no phase was reported.",
}

TERMS: Mapping[str, str] = {
    "ETT%": "Effective training time over end-to-end wall time. The headline weights every second "
    "by its accelerators.",
    "ETT% by wall time": "Effective over end-to-end time; every second counts once, whatever the "
    "job's size.",
    "ETT% of the median job": "Half of the jobs have a higher ETT%. Every job counts once.",
    "WTT%": "Wasted time over the period of training. By wall time.",
    "E2E": "End-to-end wall time: from the job's first instant to the end of its last attempt.",
    "GPU-hours": "Accelerators times hours while they were held: what is paid for.",
    "lost GPU-hours": "Held accelerator time that was not effective training.",
    "cost": "Held accelerator time at the configured price of the hardware on the day.",
    "time to start": "From the allocation of hardware to the first training loop, by wall time.",
    "time to recover": "From the end of an interrupted loop to the next loop, by wall time. Only "
    "recoveries that resumed after a failure count.",
    "checkpoint blocking": "How long the loop stands still for one save.",
    "MTBF": "Mean running time between failures of a job.",
    "failures": "Attempts that ended failed, preempted or lost.",
    "infra failures": "Failures of origin infra or preemption.",
    "unsaved training": "Training after the last durable checkpoint of an attempt that failed.",
    "queue wait": "Time queued before the job's first instant. It is not part of E2E.",
    "jobs": "Jobs that were alive in the window.",
    "attempts": "Lives of jobs' processes that began in the window.",
    "points": "Percentage points: the difference of two percentages.",
    "share": "Of time weighted by accelerators; the time in which none was held counts as well.",
    **{category.value: sentence for category, sentence in CATEGORIES.items()},
}


def anchor(term: str) -> str:
    """Return the name of a term's place on the page of definitions."""
    marks = "".join(
        mark if mark.isalnum() or mark == "_" else "-"
        for mark in term.lower().replace("%", "-ratio")
    )
    return f"term-{marks}"
