"""Runs, allocations and jobs; the facts beside them."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from ett_service.core.words import Category
from ett_service.importers.importer import Report
from ett_service.importers.mlperf import description, read
from tests.builders.imports import imported, ledger, ledgers, seconds
from tests.builders.mllog import RUN, START_S, line, run_lines, without, written

DLPAL = ":::DLPAL /images/llm.sqsh 513 9 node[002-004] 'unknown' 9xBOX"

BOX = {"number_of_nodes": "2", "accelerators_per_node": "8", "accelerator_model_name": "B200"}


def trial(number: int, after: int, *lines: str) -> tuple[str, ...]:
    return (f"Beginning trial {number} of 3", DLPAL, *(lines or run_lines(after)))


def described(folder: Path, **description: object) -> None:
    (folder / "system.json").write_text(json.dumps(description))


def test_trials_are_cycles_of_one_job_whatever_their_files_are_called(tmp_path: Path) -> None:
    written(tmp_path, *trial(2, 200), name="result_0.txt")
    written(tmp_path, *trial(1, 0), name="result_1.txt")
    written(tmp_path, *trial(3, 400), name="result_2.txt")
    (name,) = (folded := ledgers(tmp_path))
    (job,) = folded.values()

    assert name == "llama2-2xBOX-slurm513"
    assert [(a.launch, a.attempt, a.cycle) for a in job.attempts] == [
        ("513", 0, 0),
        ("513", 0, 1),
        ("513", 0, 2),
    ]
    assert seconds(job)[Category.RESTART_WAIT] == 200
    assert seconds(job)[Category.EFFECTIVE_TRAINING] == 3 * 49


def test_trials_imported_one_by_one_are_the_same_events(tmp_path: Path) -> None:
    paths = [
        written(tmp_path, *trial(number, number * 200), name=f"result_{number}.txt")
        for number in (1, 2, 3)
    ]
    at_once, _ = imported(*paths)
    singly = [event for path in paths for event in imported(path)[0]]

    assert sorted(event["id"] for event in at_once) == sorted(event["id"] for event in singly)


def test_the_output_of_the_whole_slurm_job_is_the_same_events(tmp_path: Path) -> None:
    for folder in ("apart", "whole"):
        (tmp_path / folder).mkdir()
    for number in (1, 2):
        written(tmp_path / "apart", *trial(number, number * 200), name=f"result_{number}.txt")
    whole = written(tmp_path / "whole", *trial(1, 200), *trial(2, 400), name="slurm-513.out")

    def content(path: Path) -> list[str]:
        wire, _ = imported(path)
        return sorted(
            str(event) for event in wire if event.pop("id") and event.pop("attributes", 1)
        )

    assert content(whole) == content(tmp_path / "apart")


def test_trials_without_numbers_are_told_apart_by_their_begin(tmp_path: Path) -> None:
    later = written(tmp_path, DLPAL, *run_lines(200), name="result_0.txt")
    first = written(tmp_path, DLPAL, *run_lines(0), name="result_1.txt")

    assert [attempt.cycle for attempt in ledger(tmp_path).attempts] == [START_S, START_S + 200]
    at_once, _ = imported(tmp_path)
    singly = [event for path in (later, first) for event in imported(path)[0]]
    assert singly == at_once


def test_an_allocation_that_is_named_after_the_loop_began_names_no_run(tmp_path: Path) -> None:
    killed = "0: slurmstepd: error: *** STEP 513.1 ON n1 CANCELLED AT 2025-04-21T14 ***"
    path = written(tmp_path, *without("run_stop", "RUNANDTIME_STOP"), killed)

    assert list(ledgers(path)) == ["llama2-2xBOX-20250421T185730.000Z"]


def test_a_run_without_names_imported_alone_has_a_provisional_name(tmp_path: Path) -> None:
    died = (f"RUNANDTIME_START {START_S + 200}", f"RUNANDTIME_STOP {START_S + 220}")
    _, report = imported(written(tmp_path, *trial(2, 0, *died)))

    assert "mlperf-9xBOX-slurm513, is provisional" in report.notes[0]


def test_a_quoted_name_of_the_system_is_whole(tmp_path: Path) -> None:
    quoted = ":::DLPAL /images/llm.sqsh 513 9 node[002-004] 'un known' '9x My BOX'"
    wire, _ = imported(written(tmp_path, quoted, *without("submission_platform")))

    assert (wire[0]["job"], wire[0]["cluster"]) == ("llama2-9x-My-BOX-slurm513", "9x My BOX")


def test_times_in_seconds_are_refused_with_the_line(tmp_path: Path) -> None:
    lines = [text.replace('000, "event_type', ', "event_type') for text in RUN]
    path = written(tmp_path, *lines)
    wire, report = imported(path)

    assert wire == []
    assert report.refused == [
        f"{path}:6: time_ms is in seconds, not in milliseconds, so nothing of this run is imported"
    ]
    bare = written(tmp_path, *(text for text in lines if "RUNANDTIME" not in text))
    assert len(imported(bare)[1].refused) == 1


def test_a_packed_log_is_the_same_run_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, *RUN)
    packed = tmp_path / "packed" / "result_0.txt.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(path.read_bytes()))

    assert imported(packed.parent)[0] == imported(path)[0]
    packed.write_bytes(packed.read_bytes()[:-10])
    wire, report = imported(packed.parent)
    assert wire == []
    assert report.unread[0].startswith(f"{packed}: the gzip data is truncated or damaged")


def test_each_event_names_the_line_that_says_it(tmp_path: Path) -> None:
    runs, _ = read([written(tmp_path, *RUN)])
    (run,) = runs
    lines = {
        (fact.event["type"], fact.event.get("phase"), fact.event["at"][17:19]): fact.line
        for fact in run.facts
    }

    assert lines["phase_started", "train_loop", "00"] == 8
    assert lines["phase_ended", "train_loop", "00"] == 15
    assert lines["attempt_ended", None, "10"] == 16
    assert all(lines.values())


def test_memory_does_not_grow_with_the_tree_nor_much_with_a_log(tmp_path: Path) -> None:
    steps = [line("tracked_stats", 30 + n / 1000, samples_count=n) for n in range(600)]
    for number in range(12):
        folder = tmp_path / "many" / str(number % 3)
        folder.mkdir(parents=True, exist_ok=True)
        written(folder, *run_lines(number * 200), *steps, name=f"result_{number}.txt")
    written(tmp_path / "many" / "0", *run_lines(0), *steps, name="result_00.txt")

    def peak(*paths: Path) -> int:
        tracemalloc.start()
        for _ in read(paths)[0]:
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    single = peak(tmp_path / "many" / "0" / "result_0.txt")
    assert peak(tmp_path / "many") < 2 * single


def test_copies_of_a_trial_are_one_run(tmp_path: Path) -> None:
    for number in range(3):
        written(tmp_path, DLPAL, *run_lines(0), name=f"result_{number}.txt")
    written(tmp_path, DLPAL, *run_lines(200), name="result_3.txt")

    assert [attempt.cycle for attempt in ledger(tmp_path).attempts] == [START_S, START_S + 200]


def test_equal_trial_numbers_of_two_runs_do_not_make_them_one(tmp_path: Path) -> None:
    written(tmp_path, *trial(1, 0), name="result_0.txt")
    written(tmp_path, *trial(1, 200), name="result_1.txt")

    assert [attempt.cycle for attempt in ledger(tmp_path).attempts] == [0, START_S + 200]
    assert imported(tmp_path)[1].notes == [
        f"{tmp_path / 'result_1.txt'}: trial 1 of its allocation was run before"
    ]


def test_two_benchmarks_of_one_allocation_are_two_jobs(tmp_path: Path) -> None:
    written(tmp_path, *trial(1, 0), name="result_0.txt")
    other = [text.replace("llama2", "bert") for text in trial(1, 200)]
    written(tmp_path, *other, name="result_1.txt")

    folded = ledgers(tmp_path)
    assert [(name, job.attempts[0].cycle) for name, job in folded.items()] == [
        ("llama2-2xBOX-slurm513", 0),
        ("bert-2xBOX-slurm513", 0),
    ]


def test_a_trial_that_died_before_its_name_belongs_to_its_neighbours(tmp_path: Path) -> None:
    died = (f"RUNANDTIME_START {START_S + 200}", f"RUNANDTIME_STOP {START_S + 220}")
    written(tmp_path, *trial(1, 0), name="result_0.txt")
    written(tmp_path, *trial(2, 0, *died), name="result_1.txt")
    job = ledger(tmp_path)

    assert [attempt.outcome for attempt in job.attempts] == ["completed", "failed"]


def test_equal_slurm_ids_of_two_clusters_are_two_jobs(tmp_path: Path) -> None:
    other = DLPAL.replace("node[002-004]", "gpu-7").replace("9xBOX", "1xBOX")
    nameless = [text for text in RUN if "submission_platform" not in text]
    written(tmp_path, DLPAL, *nameless, name="result_0.txt")
    written(tmp_path, other, *nameless, name="result_1.txt")

    assert sorted(ledgers(tmp_path)) == ["llama2-1xBOX-slurm513", "llama2-9xBOX-slurm513"]


def test_runs_without_an_allocation_are_jobs_named_by_their_start(tmp_path: Path) -> None:
    written(tmp_path, *without("RUNANDTIME"), name="result_0.txt")
    written(tmp_path, *without("RUNANDTIME", after=50), name="result_1.txt")

    assert list(ledgers(tmp_path)) == [
        "llama2-2xBOX-20250421T185729.000Z",
        "llama2-2xBOX-20250421T185819.000Z",
    ]


def test_a_given_name_makes_attempts_of_all_runs(tmp_path: Path) -> None:
    written(tmp_path, *RUN, name="result_0.txt")
    written(tmp_path, *run_lines(200), name="result_1.txt")
    folded = ledgers(tmp_path, job="mine")

    assert list(folded) == ["mine"]
    assert [a.launch for a in folded["mine"].attempts] == [
        "llama2-2xBOX-20250421T185730.000Z",
        "llama2-2xBOX-20250421T190050.000Z",
    ]
    assert seconds(folded["mine"])[Category.REPEATED_TRAINING] > 0


def test_a_copy_of_a_log_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    original = written(tmp_path, *RUN)
    copy = written(tmp_path / "copy", *RUN)

    assert imported(original, copy)[0] == imported(original)[0]


def test_a_longer_copy_of_a_log_completes_it(tmp_path: Path) -> None:
    cut = written(tmp_path, *RUN[:11], name="cut.txt")
    whole = written(tmp_path, *RUN, name="whole.txt")

    assert ledger(cut).failures == 1
    both = ledger(cut, whole)
    assert both.failures == 0
    assert seconds(both) == seconds(ledger(whole))


def test_the_size_of_the_system_is_nodes_times_accelerators(tmp_path: Path) -> None:
    described(
        tmp_path,
        number_of_nodes="9",
        accelerators_per_node="4",
        accelerator_model_name="GB200",
        framework="PyTorch",
        submitter="us",
        system_name="9xBOX",
    )
    wire, _ = imported(written(tmp_path, *RUN))
    facts = wire[0]

    assert (facts["gpus"], facts["hardware"], facts["cluster"]) == (36, "GB200", "9xBOX")
    assert (facts["team"], facts["labels"]) == ("us", {"framework": "PyTorch"})
    assert (wire[1]["gpus"], wire[1]["hosts"]) == (36, 9)


def test_the_launchers_own_description_serves_where_no_other_lies_beside(tmp_path: Path) -> None:
    description = {
        "submitter": "UNKNOWN_MLPERF_SUBMITTER",
        "number_of_nodes": 2,
        "accelerators_per_node": 8,
        "accelerator_model_name": "B200",
    }
    wire, _ = imported(written(tmp_path, ":::SYSJSON " + json.dumps(description), *RUN))

    assert (wire[0]["gpus"], wire[0]["hardware"]) == (16, "B200")
    assert "team" not in wire[0]


@pytest.mark.parametrize("nodes", ["", "N/A", "many", None, "0", "-3"])
def test_a_size_that_is_no_number_is_unknown(tmp_path: Path, nodes: object) -> None:
    described(tmp_path, number_of_nodes=nodes, accelerators_per_node="4")
    wire, _ = imported(written(tmp_path, *RUN))

    assert "gpus" not in wire[0]
    assert ledger(tmp_path / "result_0.txt").quality.gpus_unknown


def test_a_description_that_is_no_json_is_noted_once(tmp_path: Path) -> None:
    (tmp_path / "system.json").write_text("{")
    written(tmp_path, *RUN, name="result_0.txt")
    written(tmp_path, *run_lines(200), name="result_1.txt")
    wire, report = imported(tmp_path)

    assert report.notes == [f"{tmp_path / 'system.json'}: not JSON, so the hardware is unknown"]
    assert len([event for event in wire if event["type"] == "attempt_started"]) == 2


def test_names_never_filled_in_are_no_names(tmp_path: Path) -> None:
    wire, _ = imported(
        written(
            tmp_path,
            line("submission_org", 1, "SUBMISSION_ORG_PLACEHOLDER"),
            line("submission_platform", 1, "1xSUBMISSION_PLATFORM_PLACEHOLDER"),
            *without("submission_platform"),
        )
    )

    assert wire[0]["job"] == "llama2-20250421T185730.000Z"
    assert "team" not in wire[0]


def test_names_are_made_fit_for_the_wire(tmp_path: Path) -> None:
    odd = line("submission_benchmark", 1, "../a/b\x1b[31m\ud800" + "x" * 500)
    wire, _ = imported(written(tmp_path, odd, *without("submission_benchmark")))

    assert "/" not in wire[0]["job"]
    assert len(wire[0]["job"]) <= 200
    json.dumps(wire, ensure_ascii=False).encode()


def test_folders_are_searched_and_what_gives_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "system" / "llama2").mkdir(parents=True)
    written(tmp_path / "system" / "llama2", *RUN)
    other = written(tmp_path, "hello", name="notes.txt")
    _, report = imported(tmp_path / "empty", tmp_path / "system", other, tmp_path / "absent")

    assert report.files == 1
    assert report.unread == [
        f"{tmp_path / 'empty'}: no result_*.txt in it",
        f"{other}: no :::MLLOG record with an instant",
        f"{tmp_path / 'absent'}: No such file or directory",
    ]


def published(root: Path, **more: str) -> Path:
    """Return a folder of results as they are published, with the system described beside them."""
    results = root / "ORG" / "results" / "2xBOX" / "llama2"
    results.mkdir(parents=True)
    (root / "ORG" / "systems").mkdir()
    (root / "ORG" / "systems" / "2xBOX.json").write_text(json.dumps({**BOX, **more}))
    return results


def test_the_system_is_found_in_its_organisations_folder(tmp_path: Path) -> None:
    wire, report = imported(written(published(tmp_path), *RUN))

    assert (wire[0]["gpus"], wire[0]["hardware"], wire[1]["hosts"]) == (16, "B200", 2)
    assert report.notes == []


def test_a_path_from_within_finds_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(published(tmp_path))

    assert description(Path(), Report()) == BOX


def test_the_description_beside_the_log_goes_first(tmp_path: Path) -> None:
    results = published(tmp_path)
    (results / "system.json").write_text('{"number_of_nodes": 1}')

    assert description(results, Report()) == {"number_of_nodes": 1}


def test_a_system_of_another_name_is_not_taken(tmp_path: Path) -> None:
    results = published(tmp_path)
    other = results.parents[1] / "4xBOX" / "llama2"
    other.mkdir(parents=True)

    assert description(other, Report()) == {}
