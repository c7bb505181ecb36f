"""Other people's ratios, from the same ledger: what each counts, and over which time.

Each is a pair ``(numerator_us, denominator_us)`` of integer microseconds, so that pairs of
several jobs can be added before the one division; a pair over 0 reads as a ratio of 0.
"""

from collections.abc import Iterable, Mapping
from itertools import product

from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Period, Phase

_RESCHEDULING = (Category.RESTART_WAIT, Category.SCHEDULING, Category.HARDWARE_SETUP)
_IN_STEPS = (Category.EFFECTIVE_TRAINING, Category.RECOMPILE, Category.STALLED)
_ITERATIONS = (*_IN_STEPS, Category.REPEATED_TRAINING)
_TRAINING = (Period.TRAINING,)


def definitions(ledger: JobLedger) -> Mapping[str, tuple[int, int]]:
    """The four ratios that are reported beside ETT%, as exact pairs of microseconds.

    They need the ledger's shares and attempts, but not its segments.
    """
    return {
        "google_goodput": google_goodput(ledger),
        "cre_goodput": cre_goodput(ledger),
        "ettr": ettr(ledger),
        "megascale_rate": megascale_rate(ledger),
    }


def google_goodput(ledger: JobLedger) -> tuple[int, int]:
    """Productive step time over the time since the training program first started.

    As in ml-goodput-measurement: a step lasts until the next one begins, so a stall or a
    recompile makes a step longer and counts as productive; saves, evaluation and steps done
    again do not. Scheduling and hardware setup of a run's first attempt come before its clock.
    """
    productive = _us(ledger, _IN_STEPS, _TRAINING) - _silent_us(ledger)
    firsts = [ledger.attempts[run.first_attempt] for run in ledger.runs if run.attempts]
    scheduled = sum(
        first.categories_us.get(category, 0)
        for first in firsts
        for category in (Category.SCHEDULING, Category.HARDWARE_SETUP)
    )
    return productive, ledger.e2e_us - scheduled


def cre_goodput(ledger: JobLedger) -> tuple[int, int]:
    """``(t_w - t_ch - t_rm - t_re - t_save) / (t_w - t_re)``, not below 0.

    As in NVIDIA's Cluster Readiness Engine: the window ``t_w`` runs from the first step to the
    end; ``t_ch`` is work lost since the last checkpoint, ``t_re`` rescheduling (left out of the
    denominator, too), ``t_rm`` the rest of a recovery, and ``t_save`` blocking saves. Work lost
    is charged when it is lost, with the hang before it was noticed, so doing it again counts
    as productive.
    """
    recovering = _us(ledger, Category, [Period.RECOVERING])
    window = recovering + _us(ledger, Category, [Period.TRAINING, Period.ENDING])
    rescheduling = _us(ledger, _RESCHEDULING, [Period.RECOVERING])
    saving = _us(ledger, [Category.CHECKPOINT_BLOCKING], _TRAINING)
    lost = ledger.unsaved_us + _silent_us(ledger)
    return max(0, window - lost - recovering - saving), window - rescheduling


def ettr(ledger: JobLedger) -> tuple[int, int]:
    """Productive run time over wall time with the first wait in the queue.

    As in "Revisiting Reliability in Large-Scale Machine Learning Research Clusters" (Kokolis
    and others, arXiv 2410.21680), ``R / (Q + R + U)``: unproductive are starting again, catching
    up from a checkpoint, saving, and a hang before a failure was noticed. A scheduler sees no
    evaluation, recompile or stall inside a loop: they count as productive.
    """
    seen = _us(ledger, [*_IN_STEPS, Category.EVALUATION], _TRAINING)
    return seen - _silent_us(ledger), ledger.queue_wait_us + ledger.e2e_us


def megascale_rate(ledger: JobLedger) -> tuple[int, int]:
    """Iterations kept times their own length, over the time from the first step to the last.

    As in MegaScale (arXiv 2402.15627): what comes before the first loop and after the last one
    is in no part of it.
    """
    effective = _us(ledger, [Category.EFFECTIVE_TRAINING], _TRAINING)
    return effective, _us(ledger, Category, [Period.TRAINING, Period.RECOVERING])


def one_logger_productive(ledger: JobLedger) -> tuple[int, int]:
    """Training time that a checkpoint saved, over the time that the application ran.

    As nv-one-logger counts ``productive_train_iterations_sec``: the iterations of a process up to
    the begin of its last successful save. It publishes no ratio. It sees a process from its start
    to its end, so the time between attempts is in no part of it, and an iteration that is done
    again counts again, if it is saved.
    """
    saved: dict[int, int] = {}
    for each in ledger.checkpoints:
        begin_at = each.saved_at - (each.duration_us or 0)
        saved[each.number] = max(begin_at, saved.get(each.number, begin_at))
    productive = sum(
        max(0, min(segment.end_at, saved[segment.number]) - segment.start_at)
        for segment in ledger.segments
        if segment.category in _ITERATIONS and segment.number in saved
    )
    ran = sum(
        us
        for attempt in ledger.attempts
        for category, us in attempt.categories_us.items()
        if category not in _RESCHEDULING
    )
    return productive, ran


def _us(ledger: JobLedger, categories: Iterable[Category], periods: Iterable[Period]) -> int:
    counted = set(product(categories, periods))
    return sum(share.us for share in ledger.shares if (share.category, share.period) in counted)


def _silent_us(ledger: JobLedger) -> int:
    """Silent tails: stalled time that a loop owns, and no reported stall."""
    return sum(
        share.us
        for share in ledger.shares
        if share.category is Category.STALLED and share.phase is Phase.TRAIN_LOOP
    )
