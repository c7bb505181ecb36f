"""What each detector reported of each fleet, and the file that keeps it, a fleet a line of JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ett_service.core.errors import EttError
from ett_service.core.regressions.finding import Metric, Series, Subject, Verdict


@dataclass(frozen=True, slots=True)
class DetectorAlert:
    """What a detector reports at the end of a day; the first report of a day comes first."""

    day: int
    series: Series
    verdict: Verdict = Verdict.REGRESSION
    onset: int | None = None  #: the day on which the change began, as the detector says

    def to_json(self) -> list[Any]:
        """Return what :meth:`from_json` reads."""
        subject, cohort = self.series
        return [self.day, list(subject), dict(cohort), self.verdict.value, self.onset]

    @classmethod
    def from_json(cls, members: Sequence[Any]) -> "DetectorAlert":
        """Read what :meth:`to_json` returned."""
        day, (metric, *parts), cohort, verdict, onset = members
        series = Series(Subject(Metric(metric), *parts), tuple(cohort.items()))
        return cls(day, series, Verdict(verdict), onset)


@dataclass(frozen=True, slots=True)
class Trial:
    """One fleet, and what each detector reported of it."""

    cell: str  #: the scenario's name
    seed: int
    alerts: Mapping[str, tuple[DetectorAlert, ...]]  #: by engine
    seconds: Mapping[str, float]  #: of processor time, by engine
    impact: float = 0.0  #: of the planted change, see ``Truth``

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        return {
            "cell": self.cell,
            "seed": self.seed,
            "impact": self.impact,
            "alerts": {
                engine: [alert.to_json() for alert in alerts]
                for engine, alerts in self.alerts.items()
            },
            "seconds": dict(self.seconds),
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> "Trial":
        """Read what :meth:`to_json` returned."""
        alerts = {
            engine: tuple(DetectorAlert.from_json(alert) for alert in alerts)
            for engine, alerts in members["alerts"].items()
        }
        return cls(members["cell"], members["seed"], alerts, members["seconds"], members["impact"])

    def merged(self, other: "Trial") -> "Trial":
        """Add what other detectors reported of the same fleet."""
        alerts, seconds = {**self.alerts, **other.alerts}, {**self.seconds, **other.seconds}
        return Trial(self.cell, self.seed, alerts, seconds, other.impact)


class UnreadableTrials(EttError):
    """A file holds something else than trials."""


def read_trials(path: Path) -> list[Trial]:
    """Read the trials of a file, merged by fleet; none where there is no file.

    A last line that was not written whole is left out.

    Raises:
        UnreadableTrials: where another line is no trial.
    """
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    trials: dict[tuple[str, int], Trial] = {}
    for number, line in enumerate(lines, 1):
        if number == len(lines) and not line.endswith("\n"):
            break
        try:
            trial = Trial.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            message = f"{path}, line {number}: no trial"
            raise UnreadableTrials(message, "Name another file.") from error
        fleet = (trial.cell, trial.seed)
        trials[fleet] = trials[fleet].merged(trial) if fleet in trials else trial
    return list(trials.values())


def append_trials(path: Path, trials: Iterable[Trial]) -> Iterator[Trial]:
    """Append each of *trials* to a file as it comes, and pass it on; drop a torn last line."""
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
        path.write_bytes(content[: content.rfind(b"\n") + 1])
    with path.open("a", encoding="utf-8") as file:
        for trial in trials:
            file.write(json.dumps(trial.to_json(), separators=(",", ":")) + "\n")
            file.flush()
            yield trial
