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

_WINDOWS: Mapping[str, str] = {
    "this window": "In the window that stands below the title, weighted as the row's term says.",
    **{
        name: f"In {length} before this window, weighted in the same way."
        for name, length in (
            ("last week", "the seven days"),
            ("the day before", "the day"),
            ("the window before", "the window of the same length"),
        )
    },
}

_OF_COMPARISONS: Mapping[str, str] = {
    "base": "The first set: a median of its values, by wall time, or a rate. n counts the values.",
    "with": "The second set, measured as the first. n counts the values.",
    "factor": "After over before, estimated from all pairs of values: it need not be the quotient "
    "of the two medians that stand beside it.",
    "before": "Before the change or the marker; of a duration the wall time.",
    "after": "After the change or the marker; of a duration the wall time.",
    "before and after": "The medians of the values before the onset and after it.",
    "median before and after": "The medians of the values before the onset and after it.",
    "difference": "After minus before.",
    "onset": "The day from which on it was different, estimated.",
    "severity": "By what it costs and how sure it is.",
    "when it fired": "The estimate on the day of the alert; the other numbers are the newest.",
    "cohorts": "How many sets of jobs of the same dimensions show it.",
    "GPU-hours a week": "Held accelerator time that the change costs in a week while it lasts.",
    "took": "What it took, by wall time.",
    "share of the change": "Of the change of the mean; together they are 100%. A negative share "
    "works against the change.",
    "share of the base": "Of all wall time of the first set.",
    "share of the other": "Of all wall time of the second set.",
    "value": "What was measured.",
    "limit": "What the value must pass.",
    "recent values": "Attempts in the newest days, which are compared with the baseline.",
    "baseline values": "Attempts in the weeks before those days.",
    "smallest change": "The smallest factor that is found in 8 of 10 cases with as many values.",
}

_OF_JOBS: Mapping[str, str] = {
    "accelerators": "The number that the job or the attempt reported.",
    "length": "Wall time from begin to end.",
    "last step": "The last training step that was reported.",
    "until the next loop": "Wall time from the end of a loop to the next one of another attempt.",
    "silent before": "Wall time without a sign of life before the failure; booked as stalled.",
    "repeated after": "Wall time in which lost steps were trained again.",
    "spans": "How often it was begun.",
    "inclusive": "Wall time from begin to end, with everything nested in it.",
    "own": "Wall time in which no stage that began later was open; of a whole phase, in which none "
    "of its stages was.",
    "own, of all": "Own time over that of all rows, which is the time of the whole phase.",
    "skew of ranks": "How much longer the slowest rank took than the median one, by wall time.",
    "cache": "Whether the compiles of the attempt found what they made in the compile cache.",
    "attempts with a warm cache": "Those of which every compile that says so found the cache.",
    "in compiles": "Wall time in pt2_compile on the lead rank, recompiles included.",
    "compiles": "Graphs that PyTorch compiled; forward and backward are one each.",
    "recompiles": "Compiles of a function that had been compiled before in the attempt.",
    "cache could save": "Compile time, on the lead rank, of what an earlier attempt had compiled.",
    "could be saved": "Compile time, on the lead rank, that need not have been spent.",
    "dynamic could save": "Compile time, on the lead rank, of recompiles for a new shape.",
    "autotuning": "Wall time in which kernels were tried, on the lead rank.",
    "a step": "Mean wall time of a training step on this rank.",
    "of it waiting for data": "The part of a step in which the rank waited for its next batch.",
    "steps": "How many steps the means are taken over.",
    "tokens a second": "Of the time of effective training.",
    "samples a second": "Of the time of effective training.",
    "MFU": "Operations that the training needed over those that its accelerators can do at peak, "
    "in the time of effective training.",
    "queued before": "Wall time in the queue before the job's first instant; not part of E2E.",
    "starting": "Wall time from the allocation of hardware to the first training loop.",
    "recovering": "Wall time between loops of different attempts, and after a broken last one.",
    "owner": "Who can shorten the wait: quota, scheduler, image, node, network, framework or user.",
    "attempt": "The number of the attempt in its job, from 0.",
}

_OF_SAVES: Mapping[str, str] = {
    "interval": "Wall time of training from one checkpoint to the next.",
    "interval now": "The interval in the window, by wall time of training.",
    "unsaved": "Training lost with failures over all training at this interval, by wall time.",
    "blocking": "Time the loop stands still over all training at this interval, by wall time.",
    "best": "The interval at which failures and saves, as measured, waste least.",
    "WTT% now": "Unsaved and blocking together at the present interval, by the formula and wall "
    "time. What was measured, WTT%, has evaluation, stalls and recompiles as well.",
    "at best": "The same at the best interval.",
    "WTT% at best": "Unsaved and blocking together at the best interval, by wall time.",
    "a save": "Mean time for which a save blocks the loop, by wall time.",
    "saves": "Checkpoints that were saved in the window.",
    "to gain": "Held accelerator time in the window that the best interval would have trained in, "
    "by the formula; at most what repeated training and saves took.",
    "GPU-hours to gain": "Held accelerator time in the window that the best interval would have "
    "trained in, by the formula; at most what repeated training and saves took.",
}

_OF_THE_SERVICE: Mapping[str, str] = {
    "jobs without accelerators": "They reported no number, so numbers by accelerators lack them.",
    "jobs left out": "Alive for over 20,000 hours, as by a wrong clock; they count in nothing.",
    "merged cohorts": "Beyond the daily cap; their time is counted as other.",
    "waiting": "Messages that have not been delivered yet.",
    "requests": "Requests of this key in the last day.",
    "refused": "Those of them that were refused.",
    "events": "Events that this key sent in the last day.",
    "sent": "The bytes of those requests.",
}

TERMS: Mapping[str, str] = {
    "ETT%": "Effective training time over end-to-end wall time. The headline weights every second "
    "by its accelerators.",
    "ETT% by accelerators": "Effective over end-to-end time; every second counts as often as the "
    "job has accelerators. The headline.",
    "ETT% by wall time": "Effective over end-to-end time; every second counts once, whatever the "
    "job's size.",
    "ETT% of the median job": "Half of the jobs have a higher ETT%. Every job counts once.",
    "WTT%": "Wasted time over the period of training, as measured. By wall time.",
    "WTT% by wall time": "Wasted time over the period of training; every second counts once.",
    "E2E": "End-to-end wall time: from the job's first instant to the end of its last attempt.",
    "GPU-hours": "Accelerators times hours while they were held: what is paid for.",
    "lost GPU-hours": "Held accelerator time that was not effective training.",
    "cost": "Held accelerator time at the configured price of the hardware on the day.",
    "time to start": "From the allocation of hardware to the first training loop, by wall time.",
    "time to recover": "From the end of an interrupted loop to the next loop, by wall time. Only "
    "recoveries that resumed after a failure count.",
    "checkpoint blocking": "How long the loop stands still for one save.",
    "MTBF by running time": "Running time over failures: E2E of all jobs without scheduling and "
    "restart_wait, by wall time.",
    "MTBF by training time": "Time in the period of training over failures, by wall time. It is "
    "shorter than that by running time: failures before a loop count, and starts do not.",
    "ETT% with the cuts": "What the window's ETT% would have been; every second counts as often as "
    "the job has accelerators.",
    "jobs read": "Jobs of the window whose ledgers were recomputed; fewer than all are a sample. "
    "Those that only queued so far are among them, and not in the fleet's count of jobs alive.",
    "GPU-hours gained": "Held accelerator time that would be saved.",
    "cost gained": "The cost of those hours; unknown where any of them has no price.",
    "failures it is about": "Failures of its origin or cause in the window; it prevents its part.",
    "jobs that gain": "Jobs whose ETT% the cut would raise, of those read.",
    "failures": "Attempts that ended failed, preempted or lost.",
    "infra failures": "Failures of origin infra or preemption.",
    "unsaved training": "Training after the last durable checkpoint of an attempt that failed.",
    "queue wait": "Time queued before the job's first instant. It is not part of E2E.",
    "jobs": "Jobs that were alive in the window.",
    "attempts": "Lives of jobs' processes that began in the window.",
    "points": "Percentage points: the difference of two percentages.",
    "share": "Of time weighted by accelerators; the time in which none was held counts as well.",
    "wall time": "Time on the clock; every second counts once, whatever the job's size.",
    "share of wall time": "Of the wall time that the table is about.",
    "share of the loss": "Of all GPU-hours lost in the window.",
    "hours times accelerators": "Time times the job's accelerators, held or not.",
    "of all": "Of all failures in the window.",
    "step": "The change of the mean time to start since the marker before.",
    "mean time to start": "Mean over the jobs that began between two markers, by wall time.",
    "n": "How many values the numbers of the row are made of.",
    "price": "What one accelerator costs for one hour while it is held.",
    **_WINDOWS,
    **_OF_COMPARISONS,
    **_OF_JOBS,
    **_OF_SAVES,
    **_OF_THE_SERVICE,
    **{category.value: sentence for category, sentence in CATEGORIES.items()},
}


def anchor(term: str) -> str:
    """Return the name of a term's place on the page of definitions."""
    marks = "".join(
        mark if mark.isalnum() or mark == "_" else "-"
        for mark in term.lower().replace("%", "-ratio")
    )
    return f"term-{marks}"
