import numpy as np
import pytest

from ett_service.detection.models.form import CUT, Form, scale

MISS = 2.08  #: of the logarithm of 8
WITHIN = 0.3
SPREAD = 0.5


def _modes(seed: int, values: int = 4_000, missed: float = 0.3) -> np.typing.NDArray[np.float64]:
    draws = np.random.default_rng(seed)
    return draws.normal(0, WITHIN, values) + MISS * (draws.random(values) < missed)


def test_scores_of_normal_values_are_a_straight_line_that_ends() -> None:
    form = Form.of(np.random.default_rng(1).normal(0, 1, 20_000))
    places = np.array([-5.0, -1.0, 0.0, 1.0, 5.0])
    assert form.score(places) == pytest.approx([-2.2, -1.05, 0.0, 1.05, 2.2], abs=0.2)
    assert not form.has_modes
    assert form.boundary == np.inf


def test_a_small_shift_moves_the_mean_score_as_far() -> None:
    for values in (np.random.default_rng(2).normal(0, 1, 5_000), _modes(2) / SPREAD):
        form = Form.of(values)
        moved = form.score(values + 0.2).mean() - form.score(values).mean()
        assert moved == pytest.approx(0.2, rel=0.2)


def test_the_mean_of_scores_shows_the_shift_under_it() -> None:
    values = np.random.default_rng(8).normal(0, 1, 20_000)
    form = Form.of(values)
    for shift in (0.3, 1.0, 1.7):
        level = form.score(values + shift).mean() - form.score(values).mean()
        assert form.shift_of(np.array([level]))[0] == pytest.approx(shift, rel=0.1)
    assert form.shift_of(np.array([2 * CUT]))[0] == np.inf


def test_a_shift_shows_within_modes_and_a_large_one_is_no_other_mode() -> None:
    values = _modes(3)
    form = Form.of(values / SPREAD)
    assert form.has_modes
    assert WITHIN < form.boundary * SPREAD < MISS
    usual = form.score(values / SPREAD)
    straight = np.clip(values, -CUT * SPREAD, CUT * SPREAD)
    for factor, least in ((1.6, 1.1), (2.5, 1.5)):
        after = form.score((values + np.log(factor)) / SPREAD)
        assert (after.mean() - usual.mean()) / usual.std() > least
        cut = np.clip(values + np.log(factor), -CUT * SPREAD, CUT * SPREAD)
        assert (cut.mean() - straight.mean()) / straight.std() < least


def test_groups_are_placed_by_their_form_where_medians_fall_into_the_other_mode() -> None:
    values, group = _modes(4), np.repeat(np.arange(400), 10)
    form = Form.of(values / SPREAD)
    places = form.located(values / SPREAD, group, 400, np.full(400, 0.25)) * SPREAD
    medians = np.median(values.reshape(400, 10), axis=1)
    assert np.abs(places).max() < 0.6
    assert np.abs(medians).max() > 1.0


def test_the_scale_is_that_of_the_larger_mode() -> None:
    assert scale(np.random.default_rng(5).normal(0, 2, 20_000)) == pytest.approx(2, rel=0.05)
    assert scale(_modes(5)) < 2 * WITHIN
    assert scale(np.zeros(0)) == 0


def test_few_values_have_the_usual_form() -> None:
    form = Form.of(np.zeros(0))
    assert not form.has_modes
    assert form.score(np.array([1.0, -1.0])).sum() == pytest.approx(0, abs=1e-6)


def test_the_shift_of_few_values_is_that_of_both_modes_whichever_they_are_of() -> None:
    """Ratios of means of so few values move by how many of them miss."""
    values = _modes(5) / SPREAD
    form = Form.of(values)
    shifts, means = [], []
    for seed in range(50):
        before, after = _modes(100 + seed, 60), _modes(200 + seed, 12) + np.log(1.6)
        shifts.append(form.shift_between(before / SPREAD, after / SPREAD, 1 / SPREAD) * SPREAD)
        means.append(np.log(np.exp(after).mean() / np.exp(before).mean()))
    assert np.mean(shifts) == pytest.approx(np.log(1.6), abs=0.05)
    assert np.std(shifts) < 0.15
    assert np.std(means) > 0.3
    assert min(shifts) > np.log(1.15)


def test_more_values_of_the_slower_mode_are_no_shift() -> None:
    form = Form.of(_modes(6) / SPREAD)
    before, after = _modes(7, 60, 0.3) / SPREAD, _modes(8, 30, 0.7) / SPREAD
    assert abs(form.shift_between(before, after, 1 / SPREAD) * SPREAD) < 0.15


def test_scores_curve_where_a_shift_up_says_more_than_one_down() -> None:
    draws = np.random.default_rng(11)
    of_starts = np.where(draws.random(4000) < 0.3, 4.0, 0.0) + draws.normal(0, 1, 4000)
    assert Form.of(of_starts).curvature > 0.2
    assert abs(Form.of(draws.normal(0, 1, 4000)).curvature) < 0.1
