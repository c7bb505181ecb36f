"""A job's running totals follow from its steps, its parameters and its accelerators' rate."""

import pytest

from ett_service.demo.calendar import SECOND, Draws
from ett_service.demo.fleet import MFU_BOUNDS, MODELS, PEAK_FLOPS
from ett_service.demo.training import submit


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_what_a_step_consumes_fits_the_model(model: object) -> None:
    (spec,) = [candidate for candidate in MODELS if candidate is model]
    draws = Draws(7, spec.name)
    job = submit(draws, spec, "finetune", 64, 5.0, at=0, name="j", goes_first=False)
    seconds = job.step_us / SECOND
    peak = 64 * PEAK_FLOPS[spec.hardware, spec.precision]
    low, high = MFU_BOUNDS
    assert low <= job.flops_a_step / seconds / peak <= high + 1e-9
    totals = job.totals(100)
    assert set(totals) == set(spec.reports)
    if "tokens" in totals:
        assert totals["tokens"] == round(100 * job.flops_a_step / 6 / spec.parameters)


def test_facts_describe_the_job_and_may_leave_out_accelerators() -> None:
    drawn = [
        submit(Draws(7, str(number)), MODELS[0], "eval", 64, 1.0, at=0, name="j", goes_first=False)
        for number in range(600)
    ]
    silent = [job for job in drawn if not job.reports_gpus]
    assert 0 < len(silent) < 30
    facts = silent[0].facts("2026-03-01T00:00:00Z", "2026.09")
    assert "gpus" not in facts
    assert facts["team"] == "language"
    assert facts["precision"] == "bf16"
