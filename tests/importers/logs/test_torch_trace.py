"""Compile logs of PyTorch as events, and what becomes of them in the ledger."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ett_service.core.events import SpanOver
from ett_service.core.planning.compile_advice import advise
from ett_service.core.planning.compiles import STAGES, Compile, compiles_of
from ett_service.core.words import Category
from ett_service.importers.importer import Report
from ett_service.importers.logs.torch_trace import read
from tests.builders.imports import Wire, ledgers_of
from tests.builders.timelines import event
from tests.builders.torch_logs import (
    BEGIN_US,
    FORWARD,
    edge,
    instant,
    metrics,
    phases,
    record,
    written,
)

ROOT = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("ETT_CORPUS", ROOT / "../shared/corpus"))


def imported(*paths: Path, job: str | None = None) -> tuple[Wire, Report]:
    runs, report = read(paths, job)
    return [sent for run in runs for sent in run.events], report


def stages(events: Wire) -> list[tuple[str, str]]:
    return [(sent["stage"], sent["attributes"]["direction"]) for sent in events if "stage" in sent]


def compiles(events: Wire) -> list[Compile]:
    (ledger,) = ledgers_of(events).values()
    spans = [each for each in map(event, events) if isinstance(each, SpanOver)]
    return compiles_of("job", spans, {}, ledger)


MEASURED: dict[str, Any] = {
    "co_name": "f",
    "is_forward": True,
    "start_time_us": BEGIN_US + 10,
    "duration_us": 980,
    "aot_autograd_cumulative_compile_time_us": 900,
    "inductor_cumulative_compile_time_us": 600,
    "triton_compile_time_us": 200,
    "inductor_fx_local_cache_miss_count": 1,
}


def test_a_compile_has_the_stages_that_the_client_reports(tmp_path: Path) -> None:
    log = written(tmp_path / "a.log", *phases(*FORWARD, begin=0, length=1000), metrics(**MEASURED))
    events, report = imported(log)

    (compile_,) = compiles(events)
    assert compile_.stages_us == {
        "dynamo": 80,
        "aot_dispatch": 300,
        "inductor": 400,
        "async_compile_wait": 200,
    }
    assert (compile_.function, compile_.cache, compile_.direction) == ("f", "cold", "forward")
    assert (report.files, report.notes) == (1, [])
    (ledger,) = ledgers_of(events).values()
    assert {share.category: share.us for share in ledger.shares} == {Category.PT2_COMPILE: 1000}


def test_without_metrics_the_phases_show_a_compile(tmp_path: Path) -> None:
    backward = phases("entire_backward_compile", "inductor_compile", begin=2000, length=100)
    hit = instant("autograd_cache_hit", 30)
    forward = phases(*FORWARD, begin=0, length=1000)
    log = written(tmp_path / "a.log", forward[0], hit, *forward[1:], *backward)

    first, second = compiles(imported(log)[0])
    assert first.stages_us == {"dynamo": 20, "cache_load": 20, "inductor": 940}
    assert (first.cache, second.direction) == ("warm", "backward")
    assert second.stages_us == {"aot_dispatch": 20, "inductor": 80}


def test_a_recompile_says_why_and_advice_follows(tmp_path: Path) -> None:
    header = {"artifact": {"name": "recompile_reasons"}, "frame_id": 0, "frame_compile_id": 1}
    again = phases(*FORWARD, begin=5000, length=500, compile_id="0/1")
    log = written(
        tmp_path / "a.log",
        *phases(*FORWARD, begin=0, length=1000),
        again[0],
        record(header, "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6"),
        instant("automatic_dynamic", 5001, "0/1", name="L['x']", dim_changed=0),
        *again[1:],
    )
    advice = advise(compiles(imported(log)[0]))

    assert (advice.recompiles, advice.recompile_us) == (1, 480)
    (source,) = advice.sources
    assert (source.source, source.dims) == ("L['x']", (0,))


def test_tuning_of_a_kernel_at_its_first_run_belongs_to_its_compile(tmp_path: Path) -> None:
    tuning = phases("CachingAutotuner.benchmark_all_configs", begin=9000, length=70)
    runtime = metrics(
        "compilation_metrics_runtime",
        is_runtime=True,
        start_time_us=BEGIN_US + 9100,
        runtime_triton_autotune_time_us=65,
    )
    log = written(tmp_path / "a.log", *phases(*FORWARD, begin=0, length=1000), *tuning, runtime)

    (compile_,) = compiles(imported(log)[0])
    assert compile_.autotune_us == 70


def test_threads_that_compile_at_once_spend_the_time_once(tmp_path: Path) -> None:
    log = written(
        tmp_path / "a.log",
        edge("B", "dynamo", 0, "0/0", 1),
        edge("B", "dynamo", 50, "1/0", 2),
        edge("E", "dynamo", 100, "0/0", 1),
        edge("E", "dynamo", 120, "1/0", 2),
    )
    events, _ = imported(log)
    (ledger,) = ledgers_of(events).values()
    assert {share.category: share.us for share in ledger.shares} == {Category.PT2_COMPILE: 120}
    (ended,) = (sent for sent in events if sent["type"] == "phase_ended")
    assert ended["attributes"]["torch_phases"] == {"dynamo": [170, 170]}


def test_a_part_of_a_log_says_nothing_that_the_whole_does_not(tmp_path: Path) -> None:
    lines = [
        *phases(*FORWARD, begin=0, length=1000),
        metrics(**MEASURED),
        *phases(*FORWARD, begin=3000, length=400, compile_id="1/0"),
        metrics(**{**MEASURED, "compile_id": "1/0", "start_time_us": BEGIN_US + 3010}),
    ]
    whole, _ = imported(written(tmp_path / "a.log", *lines))
    for count in range(1, len(lines)):
        part, _ = imported(written(tmp_path / "a.log", *lines[:count]))
        if any("compilation_metrics" in line for line in lines[:count]):
            facts = {sent["id"] for sent in part if sent["type"] != "heartbeat"}
            assert facts <= {sent["id"] for sent in whole}, count


def test_a_log_that_is_cut_names_the_line(tmp_path: Path) -> None:
    lines = [edge("E", "dynamo", -50), *phases(*FORWARD, begin=0, length=1000)[:-1]]
    events, report = imported(written(tmp_path / "a.log", *lines))

    (ledger,) = ledgers_of(events).values()
    assert {s.category: s.us for s in ledger.shares} == {Category.PT2_COMPILE: 990}
    ends, begins = report.notes
    assert ends.endswith("1 ends without begin, the first is dynamo on line 1")
    assert "1 begins without end, the first is dynamo on line 10" in begins


def test_the_logs_of_a_folder_are_the_ranks_and_lives_of_one_job(tmp_path: Path) -> None:
    for name, begin in (("rank_0_a", 0), ("rank_1_b", 5), ("rank_0_c", 9_000)):
        path = tmp_path / f"dedicated_log_torch_trace_{name}.log"
        written(path, *phases("dynamo", begin=begin, length=100))
    events, _ = imported(tmp_path)
    begins = {(sent["rank"], sent["cycle"]) for sent in events if sent["type"] == "phase_started"}
    assert begins == {(0, 0), (1, 0), (0, 1)}
    assert {sent["job"] for sent in events} == {"torch-trace-20241206T231820.000Z"}
    named, _ = imported(tmp_path, job="llm")
    assert {sent["job"] for sent in named} == {"llm"}
    assert "job" not in {sent["type"] for sent in named}


def test_a_copy_or_a_longer_version_of_a_log_is_no_other_process(tmp_path: Path) -> None:
    first, second = phases(*FORWARD, begin=0, length=1000), phases(*FORWARD, begin=9000, length=50)
    whole = written(tmp_path / "a.log", *first, *second)
    copy = written(tmp_path / "b.log", *first, *second)
    part = written(tmp_path / "c.log", *first)
    expected, _ = imported(whole)

    for paths in ((whole, whole), (whole, copy), (part, whole), (tmp_path,)):
        assert {sent["id"] for sent in imported(*paths)[0]} == {sent["id"] for sent in expected}


def test_what_has_no_compile_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"\xff\x00junk\n" * 100)
    events, report = imported(tmp_path / "a.log", tmp_path / "none.log")

    assert events == []
    assert [line.rpartition(": ")[2] for line in report.unread] == [
        "no compile of TORCH_TRACE with an instant",
        "No such file or directory",
    ]


@pytest.fixture
def traces() -> Path:
    if not (CORPUS / "torch_trace").is_dir():
        pytest.skip(f"the traces are not there: {CORPUS} (set ETT_CORPUS)")
    return CORPUS / "torch_trace"


def test_torchs_own_phases_are_as_the_reference_says(traces: Path) -> None:
    reference = json.loads((traces / "reference.json").read_text())
    timed = 0
    for name, expected in reference.items():
        chromium = expected["chromium"]
        events, report = imported(traces / name)
        assert report.records == (expected["records"] if events else 0), name
        sums: dict[str, list[float]] = {}
        for sent in events:
            for phase, parts in sent.get("attributes", {}).get("torch_phases", {}).items():
                sums[phase] = [a + b for a, b in zip(sums.get(phase, [0, 0]), parts, strict=True)]
        for place, part in enumerate(("inclusive_us", "exclusive_us")):
            for phase, us in chromium[part].items():
                assert round(sums[phase][place], 1) == us, (name, phase)
        if sums:
            timed += 1
            (ledger,) = ledgers_of(events).values()
            compiled = sum(s.us for s in ledger.shares if s.category is Category.PT2_COMPILE)
            windows = sum(sent["type"] == "phase_ended" for sent in events)
            assert compiled == pytest.approx(chromium["exclusive_total_us"], abs=windows), name
    assert timed == 5


def test_stages_are_as_torch_measured_them(traces: Path) -> None:
    path = traces.parent / "torch_samples" / "torch_trace_fwd_bwd_recompile.trimmed.log"
    events, _ = imported(path)
    read_compiles = compiles(events)

    assert [(each.compile_id, each.direction, each.us) for each in read_compiles] == [
        ("0/0", "forward", 13302603),
        ("1/0", "forward", 202686),
        ("1/0", "backward", 799124),
        ("0/0", "backward", 1285584),
        ("0/1", "forward", 2243908),
        ("1/1", "forward", 992100),
    ]
    assert {stage for stage, _ in stages(events)} <= set(STAGES)
    advice = advise(read_compiles)
    assert [each.source for each in advice.sources] == ["L['x']", "L['h']"]
    assert advice.recompiles == 2
