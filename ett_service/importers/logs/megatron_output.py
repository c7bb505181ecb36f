"""What Megatron-LM and DeepSpeed print of a run, line by line: a clock, stations, steps, saves.

Old versions print the time of a few marks only. In between, a step ends where its printed time
has passed since the one before it, and whatever a line with an instant says puts the clock right.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.importers.files import pieces_of
from ett_service.importers.importer import Fact, Report, clean
from ett_service.importers.logs.local_times import LocalTimes

_TIME = rb"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)"
#: What launchers put before the lines of a rank: ``3: `` and ``[default3]:``.
_PREFIX = rb"(?:\[[A-Za-z]\w{1,20}\]:|\s*\d{1,6}:)?\s*"
_STAMP = re.compile(_PREFIX + rb"\[" + _TIME + rb"\]")
_MARK = re.compile(rb"\[([a-z][^\]]{0,80})\] datetime: " + _TIME)
_ITERATION = re.compile(
    rb"iteration\s+(\d{1,15})/\s*\d+ \|(?:.{0,200}?consumed samples:\s+(\d{1,15}) \|)?"
    rb".{0,200}?elapsed time per iteration \((ms|s)\): (\d{1,12}(?:\.\d+)?)"
)
_CHECKPOINT = re.compile(rb"successfully (saved|loaded) checkpoint (.{0,400})")
_AT_STEP = re.compile(rb"(?:at|from) iteration\s+(\d{1,15})")
_TIMER = re.compile(
    rb"(load-checkpoint|save-checkpoint|evaluate)(?:: | \.*: \()(\d{1,12}(?:\.\d+)?)"
)
_CANCELLED = re.compile(
    rb"\*\*\* (?:STEP|JOB) (\d{1,20})\S* ON .{0,100}CANCELLED AT "
    + _TIME
    + rb"(?: DUE TO ([A-Z ]{1,40}))? \*\*\*"
)
_SETTING = re.compile(_PREFIX + rb"(log_interval|world_size) \.{2,}\s(\d{1,9})\s*$")
_RAISED = re.compile(
    _PREFIX + rb"(?:\[?[Rr]ank\s?\d+\]?:\s*)?((?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception))\b: ?"
)
_STATES: Final = {
    None: ("CANCELLED", "cancelled"),
    "TIME LIMIT": ("TIMEOUT", "failed"),
    "PREEMPTION": ("PREEMPTED", "preempted"),
    "NODE FAILURE": ("NODE_FAIL", "failed"),
}
_STAGES: Final = (
    ("after megatron is initialized", "process_group_init"),
    ("after model, optimizer", "train_module_creation"),
    ("after dataloaders are built", "preproc_creation"),
    ("before the start of training step", "pre_train"),
)
"""Marks, and the stage of the start-up that each of them ends."""

_FIRST, _LAST = _STAGES[0][0], _STAGES[-1][0]
_EVERY_US: Final = 10 * SECOND_US
_MOST_ERRORS: Final = 20
_LONGEST_ERROR: Final = 300
_LONGEST_MESSAGE: Final = 2000


class Step(NamedTuple):
    """The line of a step."""

    line: int
    at_us: int
    step: int
    samples: int | None


class TrainerLife:
    """One life of the training processes, as the output tells it."""

    def __init__(self, cycle: int) -> None:
        self.cycle = cycle
        self.facts: list[Fact] = []
        self.now_us: int | None = None  #: the latest instant that is known
        self.now_line = 0  #: that was last heard with an instant
        self.first: tuple[int, int] | None = None  #: the first, and its line
        self.mark_us: int | None = None
        self.loop_us: int | None = None
        self.step: int | None = None  #: of the last line of a step, or of what was loaded
        self.step_us = 0
        self.reported_us: int | None = None
        self.pending: Step | None = None  #: the latest, if it is not among the facts
        self.load_us = 0  #: how long the load took that ends with the next mark
        self.errors: list[str] = []
        self.raised = ("", 0)  #: the first of the errors, and its line
        self.is_marked = False  #: whether its first mark has been seen
        self.is_over = False

    def hear(self, at_us: int, line: int) -> None:
        """Put the clock right, which never runs backwards."""
        self.now_us = max(at_us, self.now_us or at_us)
        self.now_line = line
        if self.first is None:
            self.first = (self.now_us, line)

    def say(self, line: int, kind: str, at_us: int, **members: object) -> None:
        self.facts.append(Fact({"type": kind, "at": rfc3339(at_us), **members}, line))

    def say_step(self) -> None:
        """Say the latest step, if it has not been said."""
        if self.pending is not None:
            line, at_us, step, samples = self.pending
            counts = {"step": step} if samples is None else {"step": step, "samples": samples}
            self.say(line, "progress", at_us, **counts)
            self.pending = None


class Output:
    """The lives that one output holds."""

    def __init__(self, path: Path, times: LocalTimes, report: Report) -> None:
        self._times = times
        self._report = report
        self._path = path
        self._log_interval: int | None = None
        self.gpus = 0
        self.lives = [TrainerLife(0)]

    @property
    def life(self) -> TrainerLife:
        """The latest life."""
        return self.lives[-1]

    def read(self) -> None:
        """Read the output to its end.

        Raises:
            Unreadable: where that cannot be done.
        """
        for number, piece in pieces_of(self._path):
            for key, within, take in _KEYS:
                if piece.find(key, 0, within) >= 0:
                    if take(self, number, piece):
                        self._report.records += 1
                    break
        for life in self.lives:
            _close(life)

    def stamped(self, number: int, piece: bytes) -> bool:
        """A line that begins with its instant, or a mark."""
        mark = _MARK.search(piece)
        if mark is not None:
            at_us = self._times.at_us(mark[2].decode(), number)
            return at_us is not None and self._marked(
                number, mark[1].decode("utf-8", "replace"), at_us
            )
        stamp = _STAMP.match(piece)
        if stamp is None:
            return False
        at_us = self._times.at_us(stamp[1].decode(), number)
        if at_us is None:
            self._report.skip(self._path, number, "its time is none")
            return False
        self.life.hear(at_us, number)
        return True

    def _marked(self, number: int, mark: str, at_us: int) -> bool:
        is_again = self.life.mark_us == at_us  # a line that was written twice
        if mark.startswith(_FIRST) and self.life.is_marked and not is_again:
            self.lives.append(TrainerLife(self.life.cycle + 1))
        life = self.life
        life.hear(at_us, number)
        if mark.startswith(("after training is done", "exiting program")):
            return self._done(number, at_us)
        for name, stage in _STAGES:
            if mark.startswith(name):
                self._station(number, stage, at_us)
                life.is_marked = True
                if name == _LAST:
                    life.say(number, "phase_started", at_us, phase="train_loop")
                    life.loop_us = life.step_us = at_us
                return True
        return False

    def _station(self, number: int, stage: str, at_us: int) -> None:
        life = self.life
        begin_us = life.mark_us
        if begin_us is None:
            begin_us, line = life.first or (at_us, number)
            life.say(line, "phase_started", begin_us, phase="launcher_init")
        if begin_us < at_us:
            start = rfc3339(begin_us)
            life.say(number, "span", at_us, start=start, phase="launcher_init", stage=stage)
            begin_us = max(begin_us, at_us - life.load_us)
        if begin_us < at_us and life.load_us:
            restore = {"phase": "launcher_init", "stage": "checkpoint_restore"}
            life.say(number, "span", at_us, start=rfc3339(begin_us), **restore)
        if stage == "pre_train":
            life.say(number, "phase_ended", at_us, phase="launcher_init")
        life.mark_us, life.load_us = at_us, 0

    def _done(self, number: int, at_us: int) -> bool:
        life = self.life
        if life.loop_us is not None and not life.is_over:
            life.say(number, "phase_ended", at_us, phase="train_loop")
            life.say(number, "attempt_ended", at_us, outcome="completed")
        life.is_over = True
        return True

    def iteration(self, number: int, piece: bytes) -> bool:
        """The line of a step, or of a save or load that names one."""
        if b"successfully" in piece:
            return self.checkpoint(number, piece)
        line = _ITERATION.search(piece)
        if line is None:
            return self.stamped(number, piece) if b"[" in piece else False
        life, step = self.life, int(line[1])
        if life.step is not None and step <= life.step:
            return False  # a line that was written twice
        stamp = _STAMP.match(piece)
        at_us = self._times.at_us(stamp[1].decode(), number) if stamp else None
        taken_us = round(float(line[4]) * (1000 if line[3] == b"ms" else SECOND_US))
        self._step(number, step, taken_us, at_us, int(line[2]) if line[2] else None)
        return True

    def _step(
        self, number: int, step: int, mean_us: int, at_us: int | None, samples: int | None
    ) -> None:
        life = self.life
        taken_us = mean_us * self._steps_since(step)
        if life.now_us is None and at_us is None:
            life.step = step
            return
        if life.loop_us is None:
            begin_us = life.now_us if at_us is None else at_us - taken_us
            assert begin_us is not None
            life.hear(begin_us, number)
            self._end_start_up(number, begin_us)
            life.say(number, "phase_started", begin_us, phase="train_loop")
            life.loop_us = life.step_us = begin_us
        if at_us is None:
            at_us = max(life.step_us + taken_us, life.now_us or 0)
        life.hear(at_us, number)
        life.step, life.step_us, life.errors = step, at_us, []
        is_due = life.reported_us is None or at_us - life.reported_us >= _EVERY_US
        life.pending = Step(number, at_us, step, samples)
        if is_due:
            life.reported_us = at_us
            life.say_step()

    def _end_start_up(self, number: int, at_us: int) -> None:
        life = self.life
        if life.mark_us is None and life.first is not None and life.first[0] < at_us:
            life.say(life.first[1], "phase_started", life.first[0], phase="launcher_init")
            life.say(number, "phase_ended", at_us, phase="launcher_init")

    def _steps_since(self, step: int) -> int:
        before = self.life.step
        if before is not None:
            return step - before
        return min(self._log_interval or step, step)

    def checkpoint(self, number: int, piece: bytes) -> bool:
        """A checkpoint that was saved or loaded."""
        line = _CHECKPOINT.search(piece)
        named = _AT_STEP.search(line[2]) if line is not None else None
        life = self.life
        if line is None or named is None or life.now_us is None:
            return False
        step = int(named[1])
        if line[1] == b"saved":
            life.say(number, "checkpoint_saved", life.now_us, step=step)
        else:
            life.say(number, "checkpoint_restored", life.now_us, step=step)
            if life.loop_us is None:
                life.step = step
        return True

    def timer(self, number: int, piece: bytes) -> bool:
        """How long a load, a save or an evaluation took; its end has just been printed."""
        line = _TIMER.search(piece)
        life = self.life
        if line is None or life.now_us is None:
            return False
        length_us = round(float(line[2]) * 1000)
        if life.loop_us is None:
            life.load_us = length_us if line[1] == b"load-checkpoint" else life.load_us
            return True
        if line[1] == b"load-checkpoint" or not length_us:
            return True
        phase = "evaluation" if line[1] == b"evaluate" else "checkpoint_blocking"
        begin_us = life.now_us
        life.hear(begin_us + length_us, number)
        start = rfc3339(begin_us)
        life.say(number, "span", begin_us + length_us, start=start, phase=phase)
        return True

    def cancelled(self, number: int, piece: bytes) -> bool:
        """Slurm's word on the end of a step or job."""
        line = _CANCELLED.search(piece)
        if line is None:
            return False
        at_us = self._times.at_us(line[2].decode(), number)
        life = self.life
        if at_us is None or life.is_over:
            return at_us is not None
        state, outcome = _STATES.get(line[3].decode() if line[3] else None, ("FAILED", "failed"))
        life.hear(at_us, number)
        life.say(number, "attempt_ended", at_us, outcome=outcome, scheduler_state=state)
        life.is_over = True
        return True

    def setting(self, _: int, piece: bytes) -> bool:
        """A setting of the run."""
        line = _SETTING.match(piece)
        if line is None:
            return False
        if line[1] == b"world_size":
            self.gpus = int(line[2])
        else:
            self._log_interval = int(line[2])
        return True

    def raised(self, number: int, piece: bytes) -> bool:
        """An exception that something printed."""
        line = _RAISED.match(piece)
        if line is None:
            return False
        life = self.life
        if not life.errors:
            life.raised = line[1].decode(), number
        if len(life.errors) < _MOST_ERRORS:
            text = piece[line.start(1) :].decode("utf-8", "replace")
            life.errors.append(clean(text, _LONGEST_ERROR))
        return True


def _close(life: TrainerLife) -> None:
    """Say the last progress, and how a life ended that says nothing of that itself."""
    life.say_step()
    if not life.facts or life.is_over or life.now_us is None:
        return
    if life.errors:
        message = "\n".join(life.errors)[:_LONGEST_MESSAGE]
        exception, line = life.raised
        evidence = {"exception": exception, "message": message}
        life.say(line, "attempt_ended", life.now_us, outcome="failed", **evidence)
    elif rfc3339(life.now_us) > max(fact.event["at"] for fact in life.facts):
        life.say(life.now_line, "heartbeat", life.now_us)


_Take = Callable[[Output, int, bytes], bool]
_KEYS: Final[tuple[tuple[bytes, int, _Take], ...]] = (
    (b"iteration ", 80, Output.iteration),
    (b"[20", 32, Output.stamped),
    (b"datetime: ", 120, Output.stamped),
    (b"load-checkpoint", 64, Output.timer),
    (b"save-checkpoint", 64, Output.timer),
    (b"evaluate ", 64, Output.timer),
    (b"successfully loaded", 64, Output.checkpoint),
    (b"world_size", 40, Output.setting),
    (b"log_interval", 40, Output.setting),
    (b"CANCELLED AT", 240, Output.cancelled),
    (b"Error", 160, Output.raised),
    (b"Exception", 160, Output.raised),
)
"""What a line that is read holds within its first bytes, the first of these first, and how."""
