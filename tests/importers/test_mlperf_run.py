"""Where phases, evaluations and progress of one run lie."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.imports import imported, ledger, ledgers_of, seconds
from tests.builders.mllog import RUN, START_S, line, without, written

WHOLE = {
    "hardware_setup": 10,
    "launcher_init": 20,
    "effective_training": 49,
    "evaluation": 11,
    "shutdown": 10,
}


def test_a_clean_run_is_cut_at_its_marks(tmp_path: Path) -> None:
    folded = ledger(written(tmp_path, *RUN))

    assert seconds(folded) == WHOLE
    assert folded.e2e_us == 100_000_000
    assert folded.time_to_start_us == 30_000_000


def test_the_first_rank_begins_the_init_and_the_last_ends_the_loop(tmp_path: Path) -> None:
    ranks = (
        line("init_start", 12, label="3: "),
        line("init_start", 14, label="5: "),
        line("run_stop", 88, status="success", label="3: "),
    )
    assert seconds(ledger(written(tmp_path, *RUN, *ranks))) == WHOLE


@settings(max_examples=40)
@given(st.permutations(RUN))
def test_the_order_of_the_lines_of_a_run_means_nothing(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    shuffled, _ = imported(written(folder, *lines, name="shuffled.txt"))
    in_order, _ = imported(written(folder, *RUN, name="shuffled.txt"))

    assert shuffled == in_order


def test_without_a_launcher_the_records_bound_the_run(tmp_path: Path) -> None:
    folded = ledger(written(tmp_path, *without("RUNANDTIME"), line("status", 95, "success")))

    assert seconds(folded) == {
        "launcher_init": 20,
        "effective_training": 49,
        "evaluation": 11,
        "unattributed": 16,
    }
    assert folded.e2e_us == 96_000_000


def test_what_the_clocks_of_other_hosts_say_does_not_stretch_the_launchers_window(
    tmp_path: Path,
) -> None:
    strays = (line("cache_clear", -30), line("eval_accuracy", 130, 0.7))

    assert ledger(written(tmp_path, *RUN, *strays)).e2e_us == 100_000_000


def test_overlapping_evaluations_count_once(tmp_path: Path) -> None:
    others = (
        line("eval_start", 52, label="7: "),
        line("eval_stop", 58, label="7: "),
        line("eval_start", 53),
        line("eval_stop", 54),
    )
    path = written(tmp_path, *RUN, *others)

    assert seconds(ledger(path))["evaluation"] == 8 + 6
    assert len([event for event in imported(path)[0] if event.get("phase") == "evaluation"]) == 2


@pytest.mark.parametrize("number", ["epoch_num", "samples_count", "step_num"])
def test_overlapping_evaluations_pair_by_their_number(tmp_path: Path, number: str) -> None:
    first: dict[str, Any] = {number: 1}
    second: dict[str, Any] = {number: 2.5}
    lines = (
        *without("eval_st"),
        line("eval_start", 40, **first),
        line("eval_start", 50, **second),
        line("eval_stop", 60, **first),
    )
    assert seconds(ledger(written(tmp_path, *lines)))["evaluation"] == 20

    stopped = (*lines, line("eval_stop", 75, **second))
    assert seconds(ledger(written(tmp_path, *stopped)))["evaluation"] == 35


def test_a_stop_with_a_number_of_its_own_ends_the_latest_start(tmp_path: Path) -> None:
    lines = (line("eval_start", 40, samples_count=8), line("eval_stop", 50, samples_count=16))

    assert seconds(ledger(written(tmp_path, *without("eval_st"), *lines)))["evaluation"] == 10


def test_a_start_without_stop_and_a_stop_without_start_own_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, *RUN, line("eval_stop", 40), line("eval_start", 70))

    assert seconds(ledger(path)) == WHOLE
    assert imported(path)[1].notes == [f"{path}: 1 eval_start without eval_stop"]


def test_evaluation_is_cut_at_the_ends_of_the_loop(tmp_path: Path) -> None:
    around = (
        line("eval_start", 25),
        line("eval_stop", 33),
        line("eval_start", 89, label="9: "),
        line("eval_stop", 95, label="9: "),
    )
    path = written(tmp_path, *RUN, *around)
    spent = seconds(ledger(path))

    assert spent["evaluation"] == 11 + 3 + 1
    assert (spent["launcher_init"], spent["shutdown"]) == (20, 10)
    stages = [event for event in imported(path)[0] if event.get("stage") == "evaluation"]
    assert [event["phase"] for event in stages] == ["launcher_init", "shutdown"]


def progressed(*lines: str, folder: Path) -> list[tuple[int, int]]:
    wire, _ = imported(written(folder, *lines))
    return [(event["step"], event["samples"]) for event in wire if event["type"] == "progress"]


def test_steps_are_derived_from_samples_and_never_go_back(tmp_path: Path) -> None:
    stale = line("block_stop", 60, samples_count=0)

    assert progressed(*RUN, stale, folder=tmp_path) == [(10, 80), (20, 160)]


def test_a_step_number_gives_the_samples(tmp_path: Path) -> None:
    stats = line("tracked_stats", 88, {"throughput": 3.0}, step_num=21.0)

    assert progressed(*RUN, stats, folder=tmp_path) == [(10, 80), (20, 160), (21, 168)]


def test_without_a_batch_size_samples_are_the_steps(tmp_path: Path) -> None:
    assert progressed(*without("global_batch"), folder=tmp_path) == [(80, 80), (160, 160)]


@pytest.mark.parametrize("count", ["many", True, -1, 0.5, 1e300, 10**400, None])
def test_a_count_that_is_none_is_passed_over(tmp_path: Path, count: object) -> None:
    odd = line("eval_accuracy", 60, samples_count=count)

    assert progressed(*RUN, odd, folder=tmp_path) == [(10, 80), (20, 160)]


def test_trials_of_one_allocation_report_no_steps_for_none_is_done_again(tmp_path: Path) -> None:
    first = ("Beginning trial 1 of 2", "SLURM_JOB_ID 9")

    assert progressed(*first, *RUN, folder=tmp_path) == []
    wire, _ = imported(written(tmp_path, *first, *RUN))
    _, loop = [event for event in wire if event.get("phase") == "train_loop"]
    assert loop["attributes"] == {"step": 20, "samples": 160}


def test_a_run_that_never_got_to_its_init_was_still_being_set_up(tmp_path: Path) -> None:
    folded = ledger(
        written(tmp_path, f"RUNANDTIME_START {START_S}", f"RUNANDTIME_STOP {START_S + 40}")
    )

    assert seconds(folded) == {"hardware_setup": 40}
    assert folded.failures == 1


def test_a_run_that_died_in_its_init_reached_no_loop(tmp_path: Path) -> None:
    folded = ledger(
        written(tmp_path, RUN[1], line("init_start", 10), f"RUNANDTIME_STOP {START_S + 40}")
    )

    assert seconds(folded) == {"hardware_setup": 10, "launcher_init": 30}
    assert folded.time_to_start_us is None


OFFLINE = (
    *without("eval_st", "run_stop", "RUNANDTIME_STOP"),
    line("block_stop", 85, samples_count=160),
    line("eval_start", 95),
    line("eval_stop", 99),
    line("run_stop", 90, status="success"),
)
"""A run that evaluates after its loop, and says only then when that ended."""


@pytest.mark.parametrize("whole", [RUN, without("RUNANDTIME"), OFFLINE])
def test_a_log_imported_while_it_grows_becomes_what_the_whole_log_says(
    tmp_path: Path, whole: tuple[str, ...]
) -> None:
    text = "\n".join((*whole, ""))
    log = tmp_path / "result_0.txt"
    log.write_text(text)
    expected, in_the_end = ledger(log), imported(log)[0]
    heard = 0
    for end in range(0, len(text), 37):
        log.write_text(text[:end])
        part, _ = imported(log)
        heard += bool(part)

        (job,) = ledgers_of([*part, *in_the_end]).values()
        assert job.segments == expected.segments
        assert job.attempts == expected.attempts
    assert heard > 10


def test_a_run_without_loop_and_end_is_imported_when_its_name_is_certain(tmp_path: Path) -> None:
    wire, report = imported(written(tmp_path, *RUN[:6]))

    assert (wire, report.files) == ([], 1)
    assert "import it again when it is longer" in report.unfinished[0]
    slurm = ":::DLPAL /images/llm.sqsh 513 2 node[1-2] 'unknown' 2xBOX"
    assert imported(written(tmp_path, slurm, *RUN[:6]))[0]
