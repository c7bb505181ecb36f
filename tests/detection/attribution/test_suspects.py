"""What a shift is associated with: planted values are found, and noise is not named."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Suspect
from ett_service.detection.attribution.dimensions import Columns as Cells
from ett_service.detection.attribution.suspects import design_weights, suspects_of
from ett_service.detection.sample import Flags, Floats, Ints

DAYS, ONSET = 42, 28
Columns = dict[str, "np.ndarray[tuple[int], np.dtype[np.str_]]"]


class Fleet:
    """Attempts of 42 days whose dimensions mean nothing until something is planted."""

    def __init__(self, seed: int, a_day: int = 12) -> None:
        self.chance = np.random.default_rng(seed)
        self.day = np.repeat(np.arange(DAYS), a_day)
        self.rows = len(self.day)
        self.after: Flags = self.day >= ONSET
        self.at_us: Ints = (self.day * DAY_US + 3_600_000_000).astype(np.int64)
        self.strata: Ints = self.chance.integers(0, 3, self.rows)
        self.log_us: Floats = self.chance.normal(20, 0.3, self.rows) + 0.7 * self.strata
        self.columns: Columns = {
            name: self.drawn(name, count)
            for name, count in (("code_version", 3), ("image", 4), ("host", 30), ("team", 6))
        }
        self.columns["run"] = np.array([f"run-{row}" for row in range(self.rows)])

    def drawn(self, name: str, count: int) -> "np.ndarray[tuple[int], np.dtype[np.str_]]":
        return np.array(
            [f"{name}-{number}" for number in self.chance.integers(0, count, self.rows)]
        )

    def some(self, part: float) -> Flags:
        return self.chance.random(self.rows) < part

    def plant(self, name: str, value: str, rows: Flags) -> None:
        self.columns[name] = np.where(rows, value, self.columns[name])

    def suspects(self, onset: int = ONSET) -> tuple[Suspect, ...]:
        return suspects_of(
            {name: column.tolist() for name, column in self.columns.items()},
            self.log_us,
            self.after,
            at_us=self.at_us,
            onset_us=onset * DAY_US,
            strata=self.strata,
        )


def new_version(fleet: Fleet) -> tuple[str, str]:
    rows = fleet.after & fleet.some(0.6)
    fleet.plant("code_version", "4.2", rows)
    fleet.log_us += 0.5 * rows
    return "code_version", "4.2"


def replacing_image(fleet: Fleet) -> tuple[str, str]:
    fleet.plant("image", "trainer:2", fleet.after)
    fleet.log_us += 0.5 * fleet.after
    return "image", "trainer:2"


def slowed_host(fleet: Fleet) -> tuple[str, str]:
    rows = fleet.some(0.4)
    fleet.plant("host", "node-7", rows)
    fleet.log_us += 0.9 * (rows & fleet.after)
    return "host", "node-7"


def colder_caches(fleet: Fleet) -> tuple[str, str]:
    cold = np.where(fleet.after, fleet.some(0.9), fleet.some(0.1))
    fleet.columns["compile_cache"] = np.where(cold, "cold", "warm")
    fleet.log_us += 0.6 * cold
    return "compile_cache", "cold"


PLANTED = (new_version, replacing_image, slowed_host, colder_caches)


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_value_comes_first(plant: Callable[[Fleet], tuple[str, str]]) -> None:
    hits = 0
    for seed in range(20):
        fleet = Fleet(seed)
        planted = plant(fleet)
        first = fleet.suspects()[:1]
        hits += [(each.dimension, each.value) for each in first] == [planted]
    assert hits >= 18


@pytest.mark.parametrize("factor", [1.0, 1.15, 1.6, 2.5])
def test_nothing_is_named_where_everything_became_slower_alike(factor: float) -> None:
    named = 0
    for seed in range(20):
        fleet = Fleet(seed)
        fleet.log_us += np.log(factor) * fleet.after
        named += bool(fleet.suspects())
    assert named <= 1


def test_a_value_that_explains_a_third_is_not_named() -> None:
    fleet = Fleet(3, a_day=60)
    rows = fleet.after & fleet.some(0.5)
    fleet.plant("image", "trainer:2", rows)
    fleet.log_us += 0.4 * fleet.after + 0.3 * rows

    assert fleet.suspects() == ()


def test_two_hosts_are_named_together_where_neither_explains_it_alone() -> None:
    fleet = Fleet(4, a_day=40)
    for name, part in (("node-1", 0.25), ("node-2", 0.33)):
        rows = fleet.some(part)
        fleet.plant("host", name, rows)
    fleet.log_us += 1.0 * (fleet.after & np.isin(fleet.columns["host"], ("node-1", "node-2")))

    first, second, *_ = fleet.suspects()

    assert {first.value, second.value} == {"node-1", "node-2"}
    assert 0.2 < second.explains < first.explains < 0.6


def test_of_two_that_explain_the_same_the_one_that_is_new_comes_first() -> None:
    fleet = Fleet(5)
    rows = fleet.after & fleet.some(0.5)
    fleet.plant("code_version", "4.2", rows)
    fleet.plant("team", "speech", rows | (~fleet.after & fleet.some(0.5)))
    fleet.columns = dict(reversed(fleet.columns.items()))
    fleet.log_us += 0.8 * rows

    first, second = fleet.suspects()[:2]

    assert (first.dimension, first.first_seen_us) == ("code_version", fleet.at_us[rows].min())
    assert second.dimension == "team"
    assert first.explains == pytest.approx(1.0, abs=0.15)
    assert first.attempts == rows.sum()


def test_of_a_value_and_all_that_hold_it_the_value_comes_first() -> None:
    fleet = Fleet(6)
    rows = fleet.after & fleet.some(0.4)
    fleet.plant("team", "speech", rows | fleet.some(0.3))
    fleet.plant("image", "trainer:2", rows)
    fleet.log_us += 0.8 * rows

    assert [each.dimension for each in fleet.suspects()][:2] == ["image", "team"]


def test_a_change_that_outlives_the_version_it_came_with_is_of_that_version() -> None:
    fleet = Fleet(11)
    later = fleet.after & (fleet.day >= ONSET + 7)
    fleet.plant("code_version", "4.1", ~fleet.after)
    fleet.plant("code_version", "4.2", fleet.after & ~later)
    fleet.plant("code_version", "4.3", later)
    fleet.log_us += 0.5 * fleet.after

    (only,) = fleet.suspects()

    assert (only.dimension, only.value) == ("code_version", "4.2")
    assert only.explains == pytest.approx(1.0, abs=0.15)


def test_a_version_that_came_days_before_the_change_is_not_named_for_it() -> None:
    fleet = Fleet(12)
    fleet.plant("code_version", "4.2", fleet.day >= ONSET - 6)
    fleet.log_us += 0.5 * fleet.after

    assert fleet.suspects() == ()


def test_a_value_that_was_slower_all_along_is_not_named() -> None:
    fleet = Fleet(14, a_day=30)
    rows = fleet.some(0.5)
    fleet.plant("image", "trainer:big", rows)
    fleet.log_us += 1.0 * rows + 0.4 * fleet.after

    assert fleet.suspects() == ()


def test_what_is_unknown_is_nobodys_fault() -> None:
    fleet = Fleet(7)
    rows = fleet.after & fleet.some(0.6)
    fleet.plant("image", "", rows)
    fleet.log_us += 0.8 * rows

    assert fleet.suspects() == ()


def test_a_host_is_found_among_the_hosts_of_attempts_on_several() -> None:
    fleet = Fleet(10)
    names = np.array([f"node-{place}" for place in range(12)])
    hosts = [tuple(fleet.chance.choice(names, 4, replace=False)) for _ in range(fleet.rows)]
    fleet.columns = {"team": fleet.columns["team"]}
    slow = np.array(["node-3" in those for those in hosts])
    fleet.log_us += 0.9 * (fleet.after & slow)
    columns: Cells = {"team": fleet.columns["team"].tolist(), "host": hosts}

    (first, *_) = suspects_of(columns, fleet.log_us, fleet.after, strata=fleet.strata)

    assert (first.dimension, first.value) == ("host", "node-3")
    assert first.attempts == (fleet.after & slow).sum()


def test_an_improvement_is_explained_like_a_regression() -> None:
    worse, better = Fleet(8), Fleet(8)
    for fleet, sign in ((worse, 1), (better, -1)):
        rows = fleet.after & (np.arange(fleet.rows) % 2 == 0)
        fleet.plant("code_version", "4.2", rows)
        fleet.log_us += sign * 0.6 * rows

    assert {each.suspects()[0].value for each in (worse, better)} == {"4.2"}


@pytest.mark.parametrize("rows", [slice(0, 0), slice(0, 100), slice(400, 500)])
def test_without_rows_on_both_sides_nothing_is_named(rows: slice) -> None:
    fleet = Fleet(9)
    columns = {name: column[rows].tolist() for name, column in fleet.columns.items()}

    assert suspects_of(columns, fleet.log_us[rows], fleet.after[rows]) == ()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), plant=st.sampled_from(PLANTED))
def test_the_order_of_rows_and_the_unit_of_time_change_nothing(
    seed: int, plant: Callable[[Fleet], object]
) -> None:
    fleet = Fleet(seed, a_day=5)
    plant(fleet)
    suspects = fleet.suspects()
    order = fleet.chance.permutation(fleet.rows)
    fleet.columns = {name: column[order] for name, column in fleet.columns.items()}
    for name in ("log_us", "after", "at_us", "strata"):
        setattr(fleet, name, getattr(fleet, name)[order])
    fleet.log_us = fleet.log_us + np.log(1e-6)

    again = fleet.suspects()

    assert [(each.dimension, each.value) for each in again] == [
        (each.dimension, each.value) for each in suspects
    ]
    assert [each.explains for each in again] == pytest.approx([each.explains for each in suspects])


def test_rows_of_a_unit_count_for_less_the_more_alike_they_are() -> None:
    chance = np.random.default_rng(1)
    units: Ints = np.repeat(np.arange(40), 5)
    after: Flags = units >= 20
    of_unit = chance.normal(0, 1, 40)[units]

    apart = design_weights(chance.normal(0, 1, 200), units, after)
    same = design_weights(of_unit, units, after)
    single = design_weights(of_unit, np.arange(200), after)

    assert apart.mean() > 0.75
    assert same == pytest.approx(np.full(200, 0.2))
    assert single.tolist() == [1.0] * 200


def test_a_job_with_many_slow_saves_is_one_job() -> None:
    fleet = Fleet(13, a_day=10)
    units: Ints = np.arange(fleet.rows)
    first = np.flatnonzero(fleet.after)[0]
    units[first : first + 60] = first
    fleet.plant("image", "trainer:2", units == first)
    fleet.log_us += 0.6 * (units == first)
    columns = {name: column.tolist() for name, column in fleet.columns.items()}

    many = suspects_of(columns, fleet.log_us, fleet.after)
    per_job = suspects_of(columns, fleet.log_us, fleet.after, units=units)

    assert (many[0].value, per_job) == ("trainer:2", ())
