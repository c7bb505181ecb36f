"""Keeps trials in a file as they come, a fleet a line of JSON, so that nothing is tried twice."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.detectors.alert import Trial
from ett_service.core.errors import EttError


class Unreadable(EttError):
    """A file holds something else than trials."""


def kept(path: Path) -> list[Trial]:
    """Read the trials of a file, those of one fleet put together; none where there is no file.

    A last line that was not written whole is left out.

    Raises:
        Unreadable: where another line is no trial.
    """
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    found: dict[tuple[str, int], Trial] = {}
    for number, line in enumerate(lines, 1):
        if number == len(lines) and not line.endswith("\n"):
            break
        try:
            trial = Trial.read(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise Unreadable(f"{path}, line {number}: no trial", "Name another file.") from error
        other = found.get((trial.cell, trial.seed), trial)
        found[trial.cell, trial.seed] = Trial(
            trial.cell,
            trial.seed,
            {**other.alerts, **trial.alerts},
            {**other.seconds, **trial.seconds},
            trial.impact,
        )
    return list(found.values())


def keep(path: Path, trials: Iterable[Trial]) -> Iterator[Trial]:
    """Add each of *trials* to a file as it comes, and pass it on; a torn last line is dropped."""
    if path.exists() and not (whole := path.read_bytes()).endswith(b"\n"):
        path.write_bytes(whole[: whole.rfind(b"\n") + 1])
    with path.open("a", encoding="utf-8") as file:
        for trial in trials:
            file.write(json.dumps(trial.members(), separators=(",", ":")) + "\n")
            file.flush()
            yield trial
