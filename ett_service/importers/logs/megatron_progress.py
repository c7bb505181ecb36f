"""``progress.txt`` of Megatron-LM's ``--log-progress``: attempts, their GPUs, durable saves.

A line is ``2024-05-13 12:34:56⇥Job ID: 513⇥# GPUs: 64⇥Saved checkpoint⇥Iteration: 300⇥…``. It does
not say when training began: that is placed by the pace of the first two saves of an attempt.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ett_service.core.intervals import rfc3339
from ett_service.importers.files import pieces_of
from ett_service.importers.importer import Fact, Report, WireEvent, clean
from ett_service.importers.logs.local_times import LocalTimes

IS_PROGRESS: Final = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\tJob ID: [^\t]*\t# GPUs: \d")

_LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\tJob ID: (?P<id>[ -~]{0,100})\t"
    r"# GPUs: (?P<gpus>\d{1,9})\t"
    r"(?P<what>Starting job|Saving async checkpoint|Saved async checkpoint|Saved checkpoint)"
    r"(?:\tIteration: (?P<step>\d{1,15}))?(?P<rest>.*)$"
)
_TOKENS = re.compile(r"Tokens \(in billions\): (\d{1,9}(?:\.\d{1,9})?)")
_BILLION: Final = 1_000_000_000
_LONGEST_LAUNCH: Final = 100


@dataclass(slots=True)
class Start:
    """One start of the training processes."""

    launch: str
    cycle: int
    gpus: int
    begin_us: int
    line: int
    is_started: bool  #: whether its start is in the file
    from_step: int  #: after which it goes on: the last that was durable
    facts: list[Fact] = field(default_factory=list)
    points: list[tuple[int, int]] = field(default_factory=list)  #: ``(instant, step)``, two


class Progress:
    """The attempts that one file holds."""

    def __init__(self, path: Path, times: LocalTimes, report: Report) -> None:
        self._path = path
        self._times = times
        self._report = report
        self._durable = 0
        self._cycles: dict[str, int] = {}
        self.attempts: list[Start] = []

    def read(self) -> None:
        """Read the file to its end.

        Raises:
            Unreadable: where that cannot be done.
        """
        for number, piece in pieces_of(self._path):
            text = piece.decode("utf-8", "replace").rstrip("\r\n")
            line = _LINE.match(text)
            at_us = self._times.at_us(line["time"], number) if line is not None else None
            is_save = line is not None and line["what"] != "Starting job"
            if line is None or at_us is None or (is_save and line["step"] is None):
                if text:
                    self._report.skip(
                        self._path, number, "no line of progress.txt, or a part of one"
                    )
                continue
            self._report.records += 1
            self._take(number, line, at_us)

    def _take(self, number: int, line: re.Match[str], at_us: int) -> None:
        launch = clean(line["id"])[:_LONGEST_LAUNCH]
        if line["what"] == "Starting job":
            self._begin(launch, line, at_us, number, is_started=True)
            return
        if not self.attempts or self.attempts[-1].launch != launch:
            self._begin(launch, line, at_us, number, is_started=False)
        self._save(number, line["what"], int(line["step"]), line["rest"], at_us)

    def _begin(
        self, launch: str, line: re.Match[str], at_us: int, number: int, *, is_started: bool
    ) -> None:
        cycle = self._cycles.get(launch, -1) + 1
        self._cycles[launch] = cycle
        gpus = int(line["gpus"])
        attempt = Start(launch, cycle, gpus, at_us, number, is_started, self._durable)
        self.attempts.append(attempt)

    def _save(self, number: int, what: str, step: int, rest: str, at_us: int) -> None:
        attempt, at = self.attempts[-1], {"at": rfc3339(at_us), "step": step}
        if what != "Saved async checkpoint":
            tokens = _TOKENS.search(rest)
            progress: WireEvent = {"type": "progress", **at}
            if tokens is not None:
                progress["tokens"] = round(float(tokens[1]) * _BILLION)
            attempt.facts.append(Fact(progress, number))
            self._place_loop(attempt, at_us, step)
        if what != "Saving async checkpoint":
            attempt.facts.append(Fact({"type": "checkpoint_saved", **at}, number))
            self._durable = max(self._durable, step)

    def _place_loop(self, attempt: Start, at_us: int, step: int) -> None:
        """Place the begin of training where the pace of the first two saves leads back to."""
        points = attempt.points
        if len(points) == 2 or (points and (at_us, step) <= points[0]):  # noqa: PLR2004
            return
        points.append((at_us, step))
        if len(points) < 2 or not attempt.is_started:  # noqa: PLR2004
            return
        (first_us, first), (second_us, second) = points
        steps = first - attempt.from_step
        if second <= first or steps < 0:
            return
        before_us = (second_us - first_us) * steps // (second - first)
        began_us = max(attempt.begin_us, first_us - before_us)
        init = {"phase": "launcher_init"}
        begun = {"type": "phase_started", "at": rfc3339(attempt.begin_us)}
        ended = {"type": "phase_ended", "at": rfc3339(began_us)}
        loop = {"type": "phase_started", "at": rfc3339(began_us), "phase": "train_loop"}
        attempt.facts += [
            Fact({**begun, **init}, attempt.line),
            Fact({**ended, **init, "attributes": _PLACED}, attempt.line),
            Fact({**loop, "attributes": _PLACED}, attempt.line),
        ]


_PLACED: Final = {"source": "megatron", "placed_by": "pace of the first two saves"}
