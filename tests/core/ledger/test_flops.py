import pytest

from ett_service.core.ledger.job_results import training_flops
from ett_service.fleet.economy import mfu_ratio


def test_training_takes_six_operations_a_parameter_and_token() -> None:
    assert training_flops(7_000_000_000, 120_000_000_000) == 5_040_000_000_000_000_000_000


def test_mfu_is_what_the_model_needed_over_what_the_accelerators_could_do() -> None:
    needed = training_flops(70_000_000_000, 50_000_000) / 1e12
    attainable = 8 * 5400 * 989.0  # 8 accelerators for 1.5 hours at 989 teraflops a second

    assert mfu_ratio(needed, attainable) == pytest.approx(0.49152, rel=1e-5)


def test_without_time_there_is_no_mfu() -> None:
    assert mfu_ratio(0.0, 0.0) is None


@pytest.mark.parametrize(("teraflops", "attainable"), [(-1, 1), (1, -1)])
def test_numbers_that_mean_nothing_are_refused(teraflops: float, attainable: float) -> None:
    with pytest.raises(ValueError, match="must"):
        mfu_ratio(teraflops, attainable)


def test_there_are_no_negative_tokens() -> None:
    with pytest.raises(ValueError, match="tokens"):
        training_flops(1, -1)
