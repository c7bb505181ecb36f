"""The tree keeps its shape: sizes, names, and a test beside each module."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TREES = ("ett_service", "tests", "benchmarks", "dashboards", "examples", "migrations")
LONGEST_MODULE = 400
LONGEST_FUNCTION = 60
BANNED_WORDS = frozenset(
    {
        "base", "common", "data", "handler", "helper", "helpers", "info", "manager", "misc",
        "processor", "service", "util", "utils",
    }
)  # fmt: skip
OF_ONE_MACHINE = re.compile(r"(?<![\w.])/(?:work|tmp|root|home|opt)/\w")

#: Modules that are best tested where they are used, and where that is.
TESTED_IN = {
    "ett_service/notifications/formats/alert.py": "tests/alerting/test_alertmanager.py",
    "ett_service/notifications/receivers.py": "tests/alerting/test_routing.py",
    "ett_service/notifications/notice.py": "tests/api/test_receivers.py",
    "ett_service/fleet/economy.py": "tests/analysis/test_economy.py",
    "ett_service/fleet/scope.py": "tests/analysis/test_scope.py",
    "ett_service/fleet/series.py": "tests/api/test_fleet.py",
    "ett_service/api/advice_answers.py": "tests/api/test_advice.py",
    "ett_service/api/answers.py": "tests/api/test_jobs.py",
    "ett_service/api/asked.py": "tests/api/test_keys.py",
    "ett_service/api/receiver_answers.py": "tests/api/test_receivers.py",
    "ett_service/api/receiver_deliveries.py": "tests/api/test_receivers.py",
    "ett_service/api/receiver_rendering.py": "tests/api/test_receivers.py",
    "ett_service/api/app.py": "tests/api/test_access.py",
    "ett_service/api/body.py": "tests/api/test_events.py",
    "ett_service/api/comparison_answers.py": "tests/api/test_comparison.py",
    "ett_service/api/correction_answers.py": "tests/api/test_corrections.py",
    "ett_service/api/changes_answers.py": "tests/api/test_changes.py",
    "ett_service/api/detection_power_answers.py": "tests/api/test_detection_power.py",
    "ett_service/api/regression_answers.py": "tests/api/test_regressions.py",
    "ett_service/api/regression_detail_answers.py": "tests/api/test_regressions.py",
    "ett_service/api/regression_rendering.py": "tests/api/test_regressions.py",
    "ett_service/charts/units.py": "tests/cli/test_regressions.py",
    "ett_service/cli/regressions_acts.py": "tests/cli/test_regressions.py",
    "ett_service/cli/regressions_explain.py": "tests/cli/test_regressions.py",
    "ett_service/cli/regressions_mutes.py": "tests/cli/test_regressions.py",
    "ett_service/cli/regressions_power.py": "tests/cli/test_regressions.py",
    "ett_service/ingest/requests.py": "tests/api/test_regression_acts.py",
    "ett_service/storage/regressions/regressions.py": "tests/api/test_regressions.py",
    "ett_service/api/deps.py": "tests/api/test_jobs.py",
    "ett_service/api/description.py": "tests/api/test_openapi.py",
    "ett_service/api/fleet_question.py": "tests/api/test_explain.py",
    "ett_service/api/estimate_answers.py": "tests/api/test_estimate.py",
    "ett_service/api/fleet_answers.py": "tests/api/test_fleet.py",
    "ett_service/api/group_answers.py": "tests/api/test_fleet.py",
    "ett_service/api/fleet_rendering.py": "tests/api/test_fleet.py",
    "ett_service/api/parameters.py": "tests/api/test_jobs.py",
    "ett_service/api/parts.py": "tests/api/test_events.py",
    "ett_service/api/problems.py": "tests/api/test_access.py",
    "ett_service/api/refusals.py": "tests/api/test_access.py",
    "ett_service/api/rendering.py": "tests/api/test_jobs.py",
    "ett_service/api/sent.py": "tests/api/test_markers.py",
    "ett_service/api/serve.py": "tests/cli/test_serve.py",
    "ett_service/cli/arguments.py": "tests/cli/test_failures.py",
    "ett_service/cli/bench_table.py": "tests/cli/test_bench.py",
    "ett_service/cli/checks.py": "tests/cli/test_doctor.py",
    "ett_service/cli/now.py": "tests/cli/test_keys.py",
    "ett_service/cli/configured.py": "tests/cli/test_config.py",
    "ett_service/cli/demo_loading.py": "tests/cli/test_demo.py",
    "ett_service/cli/demo_server.py": "tests/cli/test_demo.py",
    "ett_service/cli/estimate_arguments.py": "tests/cli/test_estimate.py",
    "ett_service/cli/exits.py": "tests/cli/test_failures.py",
    "ett_service/cli/remote.py": "tests/cli/test_failures.py",
    "ett_service/cli/server_checks.py": "tests/cli/test_doctor.py",
    "ett_service/client/backlog.py": "tests/client/test_spool.py",
    "ett_service/client/checkpoint.py": "tests/client/test_session.py",
    "ett_service/client/clock.py": "tests/client/test_session.py",
    "ett_service/client/courier.py": "tests/client/test_delivery.py",
    "ett_service/client/current.py": "tests/client/test_session.py",
    "ett_service/client/elastic.py": "tests/client/test_session.py",
    "ett_service/client/exits.py": "tests/client/test_session.py",
    "ett_service/client/guard.py": "tests/client/test_phase.py",
    "ett_service/client/launcher.py": "tests/client/test_command.py",
    "ett_service/client/leftovers.py": "tests/client/test_command.py",
    "ett_service/client/opening.py": "tests/client/test_session.py",
    "ett_service/client/recorder.py": "tests/client/test_session.py",
    "ett_service/client/torch/agent.py": "tests/client/test_torch.py",
    "ett_service/client/torch/checkpoints.py": "tests/client/test_torch.py",
    "ett_service/client/torch/compiles.py": "tests/client/test_torch.py",
    "ett_service/client/torch/imports.py": "tests/client/test_torch.py",
    "ett_service/client/torch/process_group.py": "tests/client/test_torch.py",
    "ett_service/core/ledger/results.py": "tests/core/test_conformance.py",
    "ett_service/core/errors.py": "tests/cli/test_failures.py",
    "ett_service/core/events.py": "tests/core/test_conformance.py",
    "ett_service/core/regressions/finding.py": "tests/core/test_regression_state.py",
    "ett_service/core/ledger/stages.py": "tests/core/test_laws.py",
    "ett_service/core/ledger/attempt_segments.py": "tests/core/test_laws.py",
    "ett_service/core/ledger/job_segments.py": "tests/core/test_laws.py",
    "ett_service/detection/options.py": "tests/detection/test_detector.py",
    "ett_service/detection/completed.py": "tests/detection/test_reading.py",
    "ett_service/detection/window.py": "tests/detection/test_reading.py",
    "ett_service/detection/sample.py": "tests/detection/test_reading.py",
    "ett_service/cli/detection_plan.py": "tests/cli/test_detect.py",
    "ett_service/cli/detect_answer.py": "tests/cli/test_detect.py",
    "ett_service/cli/detect_tables.py": "tests/cli/test_detect.py",
    "ett_service/demo/fleet.py": "tests/demo/test_generator.py",
    "ett_service/demo/generator.py": "tests/demo/test_planted.py",
    "ett_service/demo/calendar.py": "tests/demo/test_draws.py",
    "ett_service/metrics/counter_text.py": "tests/exposition/test_counters.py",
    "ett_service/storage/fleet/job_sums.py": "tests/analysis/test_explain.py",
    "ett_service/storage/schema/fleet_views.py": "tests/storage/test_views.py",
    "ett_service/storage/fleet/rollup_rows.py": "tests/aggregation/test_verify_rollups.py",
    "ett_service/frames/source.py": "tests/frames/test_http.py",
    "ett_service/frames/decisions.py": "tests/frames/test_decisions.py",
    "ett_service/report/advice.py": "tests/report/test_weekly.py",
    "ett_service/report/changes.py": "tests/report/test_weekly.py",
    "ett_service/report/inputs.py": "tests/report/test_weekly.py",
    "ett_service/report/document.py": "tests/report/test_weekly.py",
    "ett_service/report/losses.py": "tests/report/test_weekly.py",
    "ett_service/metrics/rules/alerts.py": "tests/rules/test_firing.py",
    "ett_service/metrics/rules/recording.py": "tests/rules/test_firing.py",
    "ett_service/storage/fleet/preemptions.py": "tests/analysis/test_preemption.py",
    "ett_service/storage/jobs/listing.py": "tests/api/test_jobs.py",
    "ett_service/storage/fleet/contributions.py": "tests/aggregation/test_refold.py",
    "ett_service/storage/jobs/batches.py": "tests/aggregation/test_refold.py",
    "ett_service/detection/attribution/examples.py": "tests/detection/test_attribution.py",
    "ett_service/detection/attribution/suspects.py": "tests/detection/test_suspects.py",
    "ett_service/detection/attribution/dimensions.py": "tests/detection/test_suspects.py",
    "ett_service/detection/attribution/location.py": "tests/detection/test_attribution.py",
    "ett_service/detection/comparison/job_sets.py": "tests/detection/test_comparison.py",
    "ett_service/core/fleet/contribution.py": "tests/core/test_contribution.py",
    "ett_service/storage/regressions/status.py": "tests/analysis/test_standing_regressions.py",
    "ett_service/storage/schema/alerting.py": "tests/storage/test_tables.py",
    "ett_service/storage/schema/fleet.py": "tests/storage/test_tables.py",
    "ett_service/storage/schema/ledger.py": "tests/storage/test_tables.py",
    "ett_service/storage/schema/metrics.py": "tests/storage/test_tables.py",
    "ett_service/storage/schema/record.py": "tests/storage/test_tables.py",
    "ett_service/storage/schema/definition.py": "tests/storage/test_tables.py",
    "ett_service/storage/metrics/counter_samples.py": "tests/worker/test_publishing.py",
    "ett_service/storage/metrics/counters.py": "tests/worker/test_publishing.py",
    "ett_service/storage/metrics/running.py": "tests/analysis/test_standing.py",
    "ett_service/trials/alert.py": "tests/trials/test_scoring.py",
    "ett_service/trials/arrivals.py": "tests/trials/test_fleet.py",
    "ett_service/trials/daily.py": "tests/trials/test_peers.py",
    "ett_service/trials/otava.py": "tests/trials/test_peers.py",
    "ett_service/trials/otava_worker.py": "tests/trials/test_peers.py",
    "ett_service/trials/engines.py": "tests/trials/test_bench.py",
    "ett_service/trials/keeping.py": "tests/trials/test_bench.py",
    "ett_service/trials/ours.py": "tests/trials/test_bench.py",
    "ett_service/trials/lives.py": "tests/trials/test_fleet.py",
    "ett_service/trials/makeup.py": "tests/trials/test_fleet.py",
    "ett_service/trials/planting.py": "tests/trials/test_fleet.py",
    "ett_service/trials/ratios.py": "tests/trials/test_fleet.py",
    "ett_service/trials/scenario.py": "tests/trials/test_fleet.py",
    "ett_service/detection/panel.py": "tests/detection/test_detector.py",
    "ett_service/detection/models/series_model.py": "tests/detection/test_detector.py",
    "ett_service/detection/models/level_model.py": "tests/detection/test_detector.py",
    "ett_service/detection/models/registry.py": "tests/detection/test_detector.py",
    "ett_service/detection/selection.py": "tests/detection/test_detector.py",
    "ett_service/detection/verdict.py": "tests/detection/test_detector.py",
    "ett_service/detection/grouping.py": "tests/detection/test_detector.py",
    "ett_service/detection/scan.py": "tests/detection/test_detector.py",
    "ett_service/storage/regressions/rows.py": "tests/storage/test_regressions.py",
    "ett_service/storage/regressions/findings.py": "tests/storage/test_regressions.py",
    "ett_service/worker/notify.py": "tests/worker/test_evaluating.py",
}


def _modules(tree: str) -> list[Path]:
    return sorted((ROOT / tree).rglob("*.py"))


def _all_modules() -> list[Path]:
    return [path for tree in TREES for path in _modules(tree)]


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_module_is_too_long_to_read() -> None:
    lines = {_name(path): len(path.read_text("utf-8").splitlines()) for path in _all_modules()}
    assert {name: count for name, count in lines.items() if count > LONGEST_MODULE} == {}


def test_no_function_is_too_long_to_read() -> None:
    too_long = {
        f"{_name(path)}:{function}": count
        for path in _all_modules()
        for function, count in _functions(path)
        if count > LONGEST_FUNCTION
    }
    assert too_long == {}


def test_no_module_is_named_for_nothing() -> None:
    named = {_name(path): set(path.stem.split("_")) & BANNED_WORDS for path in _all_modules()}
    assert {name: words for name, words in named.items() if words} == {}


def test_no_class_is_named_for_nothing() -> None:
    classes = {
        f"{_name(path)}:{node.name}"
        for path in _modules("ett_service")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        and re.search(r"(Service|Manager|Handler|Processor|Helper|Utils?|Info)$", node.name)
    }
    assert classes == set()


def test_each_module_has_its_test_where_one_looks_for_it() -> None:
    missing = []
    for path in _modules("ett_service"):
        inside = path.relative_to(ROOT / "ett_service")
        mirror = ROOT / "tests" / inside.parent / f"test_{path.stem.strip('_')}.py"
        if path.stem != "__init__" and not mirror.exists() and _name(path) not in TESTED_IN:
            missing.append(_name(path))
    assert missing == []


def test_a_module_that_is_tested_elsewhere_is_there_and_so_is_its_test() -> None:
    named = [*TESTED_IN, *TESTED_IN.values()]
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.fixture(scope="module")
def kept_files() -> list[Path]:
    """Every file under version control, or all of the tree where there is none."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        return [path for tree in (*TREES, "docs") for path in (ROOT / tree).rglob("*.*")]
    return [path for name in listed.stdout.split("\0") if (path := ROOT / name).is_file()]


def test_no_file_names_a_path_of_one_machine(kept_files: list[Path]) -> None:
    found = []
    for path in kept_files:
        if path == Path(__file__) or path.suffix not in {".py", ".md", ".toml", ".sh", ".json", ""}:
            continue
        found += [
            f"{_name(path)}: {hit.group()}"
            for hit in OF_ONE_MACHINE.finditer(path.read_text("utf-8", "replace"))
        ]
    assert found == []
