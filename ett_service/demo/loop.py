"""The training loop: steps, saves, evaluations, now and then a stall or a recompile."""

from dataclasses import dataclass

from ett_service.demo.draws import Draws
from ett_service.demo.fleet import checkpoint_every_us
from ett_service.demo.planted import Planted
from ett_service.demo.tape import Tape
from ett_service.demo.units import MINUTE, SECOND
from ett_service.demo.work import Job

_EVALUATES_EVERY = 4  #: saves
_STALLS = 0.03  #: of the stretches between saves
_RECOMPILES = 0.01


@dataclass(slots=True)
class Trained:
    """How far an attempt came: its last whole step, when, and the last step that is durable."""

    step: int
    at: int
    durable: int
    in_loop: bool = True  #: at *at* it was training, and not held up by something


class Loop:
    """The loop of one attempt of *job*, which its *tape* may cut off."""

    def __init__(self, tape: Tape, draws: Draws, planted: Planted, job: Job) -> None:
        self._tape = tape
        self._draws = draws
        self._planted = planted
        self._job = job
        self._every = max(1, checkpoint_every_us(job.gpus) // job.step_us)

    def run(self, at: int, step: int) -> Trained:
        """Train from the step after *step* to the last or to where the tape ends."""
        self._tape.tell("phase_started", at, phase="train_loop")
        state = Trained(step, at, step, in_loop=at <= self._tape.until_us)
        saves = 0
        is_first = True
        while self._goes_on(state):
            self._stretch(state, is_first=is_first)
            is_first = False
            if not self._goes_on(state):
                break
            self._save(state)
            saves += 1
            self._hold_up(state, evaluates=saves % _EVALUATES_EVERY == 0)
        if state.step == self._job.steps and state.at <= self._tape.until_us:
            self._tape.tell("phase_ended", state.at, phase="train_loop")
        return state

    def _goes_on(self, state: Trained) -> bool:
        return state.in_loop and state.step < self._job.steps

    def _stretch(self, state: Trained, *, is_first: bool) -> None:
        """Train up to the next save."""
        pace = round(self._job.step_us * (0.98 + 0.04 * self._draws.share()))
        until = self._tape.until_us
        steps = min(self._every, self._job.steps - state.step)
        done = min(steps, (until - state.at) // pace)
        if is_first and done > 1:
            self._progress(state.at + pace, state.step + 1)
        if done:
            state.at += done * pace
            state.step += done
            self._progress(state.at, state.step)
        state.in_loop = done == steps

    def _progress(self, at: int, step: int) -> None:
        self._tape.tell("progress", at, step=step, **self._job.totals(step))

    def _save(self, state: Trained) -> None:
        model = self._job.model
        slower = self._planted.save_factor(model.cluster, state.at)
        blocked = self._draws.about(model.save_s * SECOND * slower, 0.2)
        upload = self._draws.about(30 * SECOND * slower, 0.4)
        self._held(state, "checkpoint_blocking", blocked)
        saved_at = state.at + upload
        if saved_at <= self._tape.until_us:
            state.durable = state.step
            self._tape.tell(
                "checkpoint_saved",
                saved_at,
                step=state.step,
                bytes=self._job.checkpoint_bytes,
                duration_seconds=round((blocked + upload) / SECOND, 3),
            )

    def _hold_up(self, state: Trained, *, evaluates: bool) -> None:
        """Let what else stops a loop happen where it does."""
        if evaluates:
            self._held(state, "evaluation", self._draws.about(100 * SECOND, 0.3))
        if self._draws.chance(_STALLS):
            self._held(state, "stalled", self._draws.about(4 * MINUTE, 0.8))
        if self._draws.chance(_RECOMPILES):
            self._held(state, "pt2_compile", self._draws.about(90 * SECOND, 0.4))

    def _held(self, state: Trained, phase: str, length: int) -> None:
        state.at = self._tape.span(phase, state.at, state.at + length)
        state.in_loop = state.in_loop and state.at <= self._tape.until_us
