"""Work: running totals by hour, raised once whatever is trained again."""

from ett_service.core.events import Progress
from ett_service.core.intervals import HOUR_US
from ett_service.core.ledger.attempts.attempt_events import WorkHours
from ett_service.core.ledger.job_results import produced, work_done
from ett_service.core.ledger.results import Work, WorkDone


def hours(*reports: tuple[int, int]) -> WorkHours:
    """Collect ``(at, tokens)``."""
    work = WorkHours()
    for at, tokens in reports:
        work.add(at, Progress(id=f"{at}", at=at, step=0, tokens=tokens))
    return work


def test_what_is_trained_again_raises_nothing() -> None:
    first = hours((0, 10), (HOUR_US, 50))
    second = hours((2 * HOUR_US, 30), (3 * HOUR_US, 60))

    done = work_done([first, second], None)

    assert [(hour.hour_at, hour.number, hour.work.tokens) for hour in done] == [
        (0, 0, 10),
        (HOUR_US, 0, 40),
        (3 * HOUR_US, 1, 10),
    ]
    assert produced(done) == Work(tokens=60)


def test_a_report_of_nothing_is_no_work() -> None:
    work = WorkHours()
    work.add(0, Progress(id="p", at=0, step=1))

    assert work_done([work], 10**9) == ()
    assert produced(()) == Work()


def test_operations_are_six_for_each_parameter_and_token_to_the_last_teraflop() -> None:
    work = hours(*((hour * HOUR_US, (hour + 1) * 7) for hour in range(50)))

    done = work_done([work], 10**11)

    assert produced(done).teraflops == 6 * 10**11 * 350 // 10**12


def test_reported_operations_outrank_the_estimate() -> None:
    work = WorkHours()
    work.add(0, Progress(id="p", at=0, step=1, tokens=10, flops=5e12))

    assert work_done([work], 10**12) == (WorkDone(0, 0, Work(tokens=10, teraflops=5)),)


def test_operations_beyond_all_reason_are_cut_off() -> None:
    work = WorkHours()
    work.add(0, Progress(id="p", at=0, step=1, flops=1e300))

    assert produced(work_done([work], None)).teraflops == 2**53
