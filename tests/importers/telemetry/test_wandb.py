"""Offline runs of W&B."""

from pathlib import Path

from ett_service.core.words import Category, Outcome
from ett_service.importers.importer import Report
from ett_service.importers.recognition import recognised
from ett_service.importers.telemetry.wandb import read
from tests.builders.imports import Wire, ledgers_of, seconds
from tests.builders.wandb import exit_of, framed, history, run, stats

START = 1_785_000_000.0


def imported(*paths: Path) -> tuple[Wire, Report]:
    runs, report = read(paths)
    return [sent for each in runs for sent in each.events], report


def steps(begin: float, first: int, key: str = "global_step") -> list[bytes]:
    """Ten points, 10 s apart, 60 s after the begin."""
    return [history(START + begin + 60 + 10 * n, _step=n, **{key: first + n}) for n in range(1, 11)]


def written(folder: Path, name: str, *records: bytes) -> Path:
    path = folder / f"run-{name}.wandb"
    path.write_bytes(framed(*records))
    return path


def test_runs_of_one_name_are_attempts_of_a_job(tmp_path: Path) -> None:
    crashed = [run("a", "llm", "pre", START), *steps(0, 0), exit_of(137, 180)]
    resumed = [run("a", "llm", "pre", START + 300), *steps(300, 5), exit_of(0, 180)]
    written(tmp_path, "a", *crashed)
    written(tmp_path, "b", *resumed)
    ((name, job),) = ledgers_of(imported(tmp_path)[0]).items()

    assert name == "pre-llm"
    assert [attempt.outcome for attempt in job.attempts] == [Outcome.FAILED, Outcome.COMPLETED]
    assert seconds(job)[Category.RESTART_WAIT] == 120
    assert job.attempts[0].last_step == 10
    assert recognised([tmp_path]) == "wandb"


def test_the_step_of_the_trainer_goes_before_that_of_the_log(tmp_path: Path) -> None:
    path = written(tmp_path, "a", run("a", "llm", "", START), *steps(0, 100))
    assert [e["step"] for e in imported(path)[0] if e["type"] == "progress"][-1] == 110

    path = written(tmp_path, "a", run("a", "llm", "", START), *steps(0, 100, "loss"))
    assert [e["step"] for e in imported(path)[0] if e["type"] == "progress"][-1] == 10


def test_a_run_that_was_killed_is_heard_until_its_last_sample(tmp_path: Path) -> None:
    path = written(tmp_path, "a", run("a", "llm", "pre", START), *steps(0, 0), stats(START + 175.5))
    ((_, job),) = ledgers_of(imported(path)[0]).items()

    assert (job.attempts[0].outcome, job.e2e_us) == (Outcome.LOST, 175.5e6)


def test_damage_is_named_by_its_record(tmp_path: Path) -> None:
    odd = history(1.0, _step=1)
    path = written(tmp_path, "a", run("a", "llm", "pre", START), odd, *steps(0, 0))
    path.write_bytes(path.read_bytes()[:-3])
    _, report = imported(path)

    assert report.first_skipped == [
        f"{path}:2: record 2: history without a _timestamp in seconds",
        f"{path}:12: record 12: a record that is damaged or cut",
    ]
    (other := tmp_path / "run-b.wandb").write_bytes(framed(odd))
    assert imported(other)[1].unread == [f"{other}: no run with a start in it"]
