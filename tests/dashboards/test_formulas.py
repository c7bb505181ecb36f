"""What the queries compute, against numbers worked out by hand, by Prometheus' own engine."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from dashboards.build.kit import Panel
from dashboards.build.prometheus import PROMETHEUS
from dashboards.build.prometheus.promql import by_category, dated, ratio
from dashboards.build.variables import filled
from tests.builders.servers.programs import needed

HOURS = 24 * 8
CHOSEN = {"job": "ett", "cluster": "east|west", "cohort": "m", "__rate_interval": "6h"}
EAST = '{job="ett",cluster="east",cohort="m"'
DAY_S = 86_400
PHASES = "cluster_cohort_phase_held:ett_phase_weighted_seconds_total:max"
DEDUCTED = "cluster_cohort_phase_category:ett_deducted_weighted_seconds_total:max"


def panel(uid: str, title: str) -> Panel:
    (titled,) = (
        panel
        for dashboard in PROMETHEUS.dashboards
        if dashboard.uid == uid
        for panel in dashboard.panels
        if panel.title == title
    )
    return titled


def growing(per_hour: float) -> str:
    """Return a counter that grows so much each hour."""
    return f"0+{per_hour}x{HOURS}"


def check(
    folder: Path, series: Mapping[str, str], query: str, answer: Mapping[str, float]
) -> subprocess.CompletedProcess[str]:
    """Let promtool evaluate a query at the end of *series*, given an hour apart."""
    promtool = needed("promtool", "prometheus")
    expectation = {
        "expr": filled(query, CHOSEN),
        "eval_time": f"{HOURS}h",
        "exp_samples": [{"labels": labels, "value": value} for labels, value in answer.items()],
    }
    test = {
        "interval": "1h",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [expectation],
    }
    path = folder / "test.yml"
    path.write_text(json.dumps({"tests": [test]}))
    return subprocess.run(
        [promtool, "test", "rules", path], capture_output=True, text=True, check=False
    )


CHECKPOINTS = {
    f'cluster_cohort_phase:ett_phase_seconds_total:max{EAST},phase="train_loop"}}': growing(3600),
    f"cluster_cohort:ett_checkpoint_blocking_seconds_count:max{EAST}}}": growing(6),
    f"cluster_cohort:ett_checkpoint_blocking_seconds_sum:max{EAST}}}": growing(90),
    'cluster_origin_cause:ett_failures_total:max{job="ett",cluster="east",cause="host"}': growing(
        0.125
    ),
}
"""A loop that trains all the time, saves each 600 s for 15 s, and fails three times a day."""


@pytest.mark.parametrize(
    ("title", "query_index", "answer"),
    [
        ("Interval and optimum", 0, 600),
        ("Interval and optimum", 1, (2 * DAY_S * 15 / 3) ** 0.5),
        ("Mean checkpoint blocking", 0, 15),
        ("Possible gain", 0, (3 * 300 + 144 * 15) / DAY_S - (2 * 15 * 3 / DAY_S) ** 0.5),
    ],
)
def test_the_interval_is_held_against_the_best_one(
    title: str, query_index: int, answer: float, tmp_path: Path
) -> None:
    query = panel("ett-checkpoints", title).queries[query_index]
    rounded = f"round({query.text}, 0.0000001)"
    expected = {'{cluster="east"}': round(answer, 7)}
    done = check(tmp_path, CHECKPOINTS, rounded, expected)
    assert done.returncode == 0, done.stdout + done.stderr


TIME = {
    f'{PHASES}{EAST},phase="train_loop",held="true"}}': growing(800),
    f'{PHASES}{EAST},phase="pt2_compile",held="true"}}': growing(90),
    f'{PHASES}{EAST},phase="stalled",held="true"}}': growing(10),
    f'{PHASES}{EAST},phase="scheduling",held="false"}}': growing(60),
    f'{PHASES}{EAST},phase="restart_wait",held="false"}}': growing(25),
    f'{PHASES}{EAST},phase="restart_wait",held="true"}}': growing(15),
    f'{DEDUCTED}{EAST},phase="train_loop",category="repeated_training"}}': growing(50),
    f'{DEDUCTED}{EAST},phase="train_loop",category="stalled"}}': growing(30),
    f'{DEDUCTED}{EAST},phase="pt2_compile",category="recompile"}}': growing(20),
}
LOST = {
    "pt2_compile": 70, "recompile": 20, "repeated_training": 50, "stalled": 40, "scheduling": 60,
    "restart_wait": 40,
}  # fmt: skip


@pytest.mark.parametrize("effective", [True, False])
def test_what_is_deducted_from_a_phase_goes_to_its_category(
    tmp_path: Path, *, effective: bool
) -> None:
    parts = {**LOST, "effective_training": 720} if effective else LOST
    expected = {f'{{category="{name}"}}': per_hour for name, per_hour in parts.items()}
    query = f"round(3600 * ({by_category('7d', effective=effective)}))"
    done = check(tmp_path, TIME, query, expected)
    assert done.returncode == 0, done.stdout + done.stderr


_SPEEDS = "cluster_cohort_speed:ett_effective_speed_seconds_total:max"
SPEED = {
    f'{_SPEEDS}{EAST},speed="at_reference"}}': growing(600),
    f'{_SPEEDS}{EAST},speed="slowed"}}': growing(300),
    f'{_SPEEDS}{EAST},speed="unmeasured"}}': growing(100),
    f"cluster_cohort:ett_data_wait_seconds_total:max{EAST}}}": growing(90),
    f"cluster_cohort:ett_data_wait_loop_seconds_total:max{EAST}}}": growing(900),
    f"cluster_cohort:ett_between_runs_seconds_total:max{EAST}}}": growing(1800),
}


@pytest.mark.parametrize(
    ("title", "query_index", "answer"),
    [
        ("Effective training that was slowed, or not measured", 0, 0.3),
        ("Effective training that was slowed, or not measured", 1, 0.1),
        ("Loops waiting for data", 0, 0.1),
        ("Between runs, last 7 days", 0, 7 * 24 * 0.5),
    ],
)
def test_slow_training_is_a_share_of_all_training(
    title: str, query_index: int, answer: float, tmp_path: Path
) -> None:
    query = panel("ett-fleet", title).queries[query_index]
    done = check(tmp_path, SPEED, f"round({query.text}, 0.0000001)", {"{}": answer})
    assert done.returncode == 0, done.stdout + done.stderr


def test_points_lost_are_of_all_time(tmp_path: Path) -> None:
    (query,) = panel("ett-fleet", "From 100 % down to ETT, last 7 days").queries
    expected = {f'{{category="{name}"}}': lost / 1000 for name, lost in LOST.items()}
    done = check(tmp_path, TIME, f"round({query.text}, 0.000001)", expected)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ratios_are_of_sums_whatever_the_number_of_replicas(tmp_path: Path) -> None:
    series = {
        f"{name}{{job='ett',instance='{instance}',cluster='{cluster}',cohort='m',window='7d'{more}}}":
            f"{value}x{HOURS}"
        for instance in ("a", "b")
        for cluster, ratio, weight in (("east", 0.9, 300), ("west", 0.5, 100))
        for name, more, value in (
            ("ett_window_ratio", ",weighting='accelerators'", ratio),
            ("ett_window_weighted_seconds", "", weight),
        )
    }  # fmt: skip
    query = f"round({ratio('7d')}, 0.000001)"
    done = check(tmp_path, series, query, {"{}": 0.8})
    assert done.returncode == 0, done.stdout + done.stderr
    assert check(tmp_path, series, query, {"{}": 0.7}).returncode != 0


def test_two_weeks_stand_apart(tmp_path: Path) -> None:
    series = {"up": f"1x{HOURS}"}
    query = f"{dated('now', 'up')} or {dated('then', 'up offset 7d')}"
    done = check(tmp_path, series, query, {'{week="now"}': 1, '{week="then"}': 1})
    assert done.returncode != 0
    done = check(tmp_path, series, query, {'up{week="now"}': 1, 'up{week="then"}': 1})
    assert done.returncode == 0, done.stdout + done.stderr
