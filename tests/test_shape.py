"""The tree keeps its shape: sizes, names, and a test beside each module."""

import ast
import re
import subprocess
from collections.abc import Iterator, Sequence
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
    "setting_tables.py": "test_settings.py",
    "importers/logs/checked_events.py": "importers/logs/test_mapped_events.py",
    "importers/logs/event_shapes.py": "importers/logs/test_mapped_events.py",
    "storage/record/pruned.py": "storage/test_retention.py",
    "storage/sizes.py": "storage/test_retention.py",
    "api/answers.py": "api/jobs/test_listing.py",
    "api/receivers/answers.py": "api/receivers/test_receivers.py",
    "api/receivers/deliveries.py": "api/receivers/test_receivers.py",
    "api/bodies.py": "api/record/test_markers.py",
    "api/jobs/answers.py": "api/jobs/test_listing.py",
    "api/jobs/members.py": "api/jobs/test_waits.py",
    "api/app.py": "api/test_access.py",
    "api/regressions/answers.py": "api/regressions/test_listing.py",
    "api/deps.py": "api/jobs/test_listing.py",
    "api/state.py": "api/record/test_events.py",
    "api/problems.py": "api/test_access.py",
    "detection/confirmation.py": "api/regressions/test_confirmation.py",
    "cli/regressions/explain.py": "cli/regressions/test_regressions.py",
    "cli/regressions/triage.py": "cli/regressions/test_regressions.py",
    "cli/demo/server.py": "cli/demo/test_demo.py",
    "cli/operations/server_checks.py": "cli/operations/test_doctor.py",
    "cli/record/administration.py": "cli/record/test_keys.py",
    "cli/record/import_options.py": "cli/record/test_import.py",
    "cli/remote.py": "cli/test_failures.py",
    "client/sending/backlog.py": "client/sending/test_spool.py",
    "client/reporting/checkpoint.py": "client/test_session.py",
    "client/clock.py": "client/test_session.py",
    "client/sending/courier.py": "client/sending/test_delivery.py",
    "client/current.py": "client/test_session.py",
    "client/exits.py": "client/test_session.py",
    "client/guard.py": "client/reporting/test_phase.py",
    "client/frameworks/fabric.py": "client/frameworks/test_lightning.py",
    "client/launching/launcher.py": "client/launching/test_command.py",
    "client/recorder.py": "client/test_session.py",
    "client/autostart.py": "client/test_automatic.py",
    "client/reporting/layers.py": "client/test_automatic.py",
    "client/torch/agent.py": "client/test_torch.py",
    "client/torch/batches.py": "client/test_untouched.py",
    "client/torch/launch.py": "client/test_untouched.py",
    "client/torch/states.py": "client/test_untouched.py",
    "client/torch/steps.py": "client/test_untouched.py",
    "client/torch/checkpoints.py": "client/test_torch.py",
    "client/torch/compile_records.py": "client/test_torch.py",
    "client/torch/compiles.py": "client/test_torch.py",
    "client/torch/imports.py": "client/test_torch.py",
    "importers/slurm/record.py": "importers/slurm/test_facts.py",
    "ingest/trainer_status.py": "api/record/test_trainer_status.py",
    "ingest/otlp/receive.py": "api/record/test_traces.py",
    "ingest/otlp/spans.py": "api/record/test_traces.py",
    "ingest/otlp/protobuf_spans.py": "api/record/test_traces.py",
    "ingest/otlp/identity.py": "ingest/otlp/test_events.py",
    "core/ledger/results.py": "core/test_conformance.py",
    "core/regressions/finding.py": "core/regressions/test_causes.py",
    "core/failures/rule.py": "core/failures/test_rules.py",
    "core/failures/echoes.py": "core/failures/test_rules.py",
    "core/events.py": "core/test_conformance.py",
    "detection/sample.py": "detection/observed/test_inputs.py",
    "cli/regressions/detect_answer.py": "cli/regressions/test_detect.py",
    "storage/fleet/rollup_rows.py": "aggregation/test_verify_rollups.py",
    "pages/ask.py": "pages/fleet/test_overview.py",
    "pages/files.py": "pages/test_route.py",
    "pages/fleet/answers.py": "pages/fleet/test_beginning.py",
    "pages/fleet/changes.py": "pages/fleet/test_planning.py",
    "pages/fleet/checkpoints.py": "pages/fleet/test_planning.py",
    "pages/fleet/quality.py": "pages/fleet/test_planning.py",
    "pages/fleet/what_if.py": "pages/fleet/test_planning.py",
    "pages/regressions/comparison.py": "pages/fleet/test_planning.py",
    "pages/fleet/course.py": "pages/fleet/test_overview.py",
    "pages/fleet/figures.py": "pages/fleet/test_overview.py",
    "pages/fleet/losses.py": "pages/fleet/test_overview.py",
    "pages/jobs/life.py": "pages/jobs/test_job.py",
    "pages/jobs/reasons.py": "pages/jobs/test_job.py",
    "pages/links.py": "pages/test_route.py",
    "pages/panel.py": "pages/fleet/test_overview.py",
    "pages/regressions/listing.py": "pages/regressions/test_finding.py",
    "pages/render.py": "pages/test_route.py",
    "pages/sign_in.py": "pages/test_sessions.py",
    "pages/terms.py": "pages/test_route.py",
    "pages/window.py": "pages/fleet/test_overview.py",
    "storage/record/sessions.py": "pages/test_sessions.py",
    "report/advice.py": "report/test_weekly.py",
    "report/changes.py": "report/test_weekly.py",
    "report/inputs.py": "report/test_weekly.py",
    "metrics/rules/alerts.py": "metrics/rules/test_firing.py",
    "storage/fleet/preemptions.py": "fleet/test_summary.py",
    "storage/jobs/batches.py": "aggregation/test_refold.py",
    "detection/attribution/dimensions.py": "detection/attribution/test_suspects.py",
    "storage/schema/alerting.py": "storage/test_schema.py",
    "storage/schema/fleet.py": "storage/test_schema.py",
    "storage/schema/ledger.py": "storage/test_schema.py",
    "storage/schema/record.py": "storage/test_schema.py",
    "storage/schema/definition.py": "storage/test_schema.py",
    "storage/metrics/counters.py": "worker/test_metrics.py",
    "storage/metrics/gauge_values.py": "metrics/test_standing.py",
    "storage/regressions/findings.py": "storage/regressions/test_regressions.py",
    "worker/notify.py": "worker/test_evaluating.py",
    "importers/telemetry/goodput_log.py": "importers/telemetry/test_goodput.py",
}


def _modules(tree: str) -> list[Path]:
    return sorted((ROOT / tree).rglob("*.py"))


def _all_modules() -> list[Path]:
    return [path for tree in TREES for path in _modules(tree)]


def _functions(statements: Sequence[ast.AST]) -> Iterator[tuple[str, int]]:
    for node in statements:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, field, ())
            yield from _functions(inner if isinstance(inner, list) else ())


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_module_is_too_long_to_read() -> None:
    lines = {_name(path): len(path.read_text("utf-8").splitlines()) for path in _all_modules()}
    assert {name: count for name, count in lines.items() if count > LONGEST_MODULE} == {}


def test_no_function_is_too_long_to_read() -> None:
    too_long = {
        f"{_name(path)}:{function}": count
        for path in _all_modules()
        for function, count in _functions([ast.parse(path.read_text("utf-8"))])
        if count > LONGEST_FUNCTION
    }
    assert too_long == {}


def test_no_module_is_named_for_nothing() -> None:
    named = {_name(path): set(path.stem.split("_")) & BANNED_WORDS for path in _all_modules()}
    assert {name: words for name, words in named.items() if words} == {}


def test_no_class_is_named_for_nothing() -> None:
    for_nothing = re.compile(
        r"^ *class (\w*(?:Service|Manager|Handler|Processor|Helper|Utils?|Info))\b", re.MULTILINE
    )
    classes = {
        f"{_name(path)}:{name}"
        for path in _modules("ett_service")
        for name in for_nothing.findall(path.read_text("utf-8"))
    }
    assert classes == set()


def test_no_broad_except_is_without_its_reason() -> None:
    broad = re.compile(r"except( \(?(Base)?Exception\b|:)|suppress\((Base)?Exception\b")
    places = [
        f"{_name(path)}:{number}"
        for path in _modules("ett_service")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if broad.search(line)
        and not re.search("[a-z]{4}", line.partition("#")[2].replace("noqa:", ""))
    ]
    assert places == []


def test_each_module_has_its_test_where_one_looks_for_it() -> None:
    missing = []
    for path in _modules("ett_service"):
        inside = path.relative_to(ROOT / "ett_service")
        mirror = ROOT / "tests" / inside.parent / f"test_{path.stem.strip('_')}.py"
        # The route and the verb of a question about the fleet may be tested with it.
        with_question = ROOT / "tests/fleet" / mirror.name
        is_of_fleet = str(inside.parent) in {"api/fleet", "cli/fleet"}
        is_tested = mirror.exists() or (is_of_fleet and with_question.exists())
        if path.stem != "__init__" and not is_tested and str(inside) not in TESTED_IN:
            missing.append(_name(path))
    assert missing == []


def test_a_module_that_is_tested_elsewhere_is_there_and_so_is_its_test() -> None:
    modules = [name for name in TESTED_IN if not (ROOT / "ett_service" / name).exists()]
    tests = [name for name in TESTED_IN.values() if not (ROOT / "tests" / name).exists()]
    assert (modules, tests) == ([], [])


def _places(folder: Path) -> set[str]:
    """Return the modules and folders below *folder*, without endings."""
    return {
        str(path.relative_to(folder).with_suffix(""))
        for path in folder.rglob("[a-z]*")
        if path.suffix == ".py" or path.is_dir()
    }


def test_the_map_of_the_core_names_every_module_of_the_way() -> None:
    core = ROOT / "ett_service" / "core"
    named = set(re.findall(r"``([a-z_/]+)``", (core / "__init__.py").read_text("utf-8")))
    of_the_way = {place for place in _places(core) if "/" not in place or "ledger/" in place}
    assert named == of_the_way - {"ledger", "ledger/attempts"}


def test_the_map_of_folders_names_what_is_there() -> None:
    page = (ROOT / "docs/design/0018-plan-of-folders.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+[a-z_])`", page)) - {"tests/builders"}
    assert len(named) > 15
    assert named - _places(ROOT / "ett_service") == set()


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
    places = []
    for path in kept_files:
        if path == Path(__file__) or path.suffix not in {".py", ".md", ".toml", ".sh", ".json", ""}:
            continue
        places += [
            f"{_name(path)}: {hit.group()}"
            for hit in OF_ONE_MACHINE.finditer(path.read_text("utf-8", "replace"))
        ]
    assert places == []
