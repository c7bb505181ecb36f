"""A job that somebody submits, and what its steps consume."""

from dataclasses import dataclass

from ett_service.demo.calendar import HOUR, SECOND, Draws, WireEvent
from ett_service.demo.fleet import MFU_BOUNDS, PEAK_FLOPS, Model

_SAMPLES_A_GPU = 64
_BYTES_A_PARAMETER = 14  #: weights in 2 bytes, their copy and two moments in 4 each
_UNKNOWN_SIZE = 0.015


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is submitted; instants and durations in microseconds."""

    name: str
    model: Model
    kind: str
    gpus: int
    goes_first: bool
    submitted_at: int
    steps: int
    step_us: int
    flops_a_step: float
    tells_gpus: bool

    @property
    def is_urgent(self) -> bool:
        """Whether it waits little and gives its accelerators to nobody."""
        return self.goes_first or self.kind == "retrain"

    @property
    def checkpoint_bytes(self) -> int:
        """How large one checkpoint is."""
        return _BYTES_A_PARAMETER * self.model.parameters

    def totals(self, step: int) -> dict[str, object]:
        """Return the running totals that the trainer reports after *step*."""
        flops = self.flops_a_step * step
        amounts = {
            "samples": _SAMPLES_A_GPU * self.gpus * step,
            "tokens": round(flops / (6 * self.model.parameters)),
            "flops": flops,
        }
        return {name: amounts[name] for name in amounts if name in self.model.reports}

    def facts(self, at: str, code_version: str) -> WireEvent:
        """Return the event that describes the job."""
        facts: WireEvent = {
            "type": "job",
            "at": at,
            "job": self.name,
            "team": self.model.team,
            "model": self.model.name,
            "cluster": self.model.cluster,
            "hardware": self.model.hardware,
            "kind": self.kind,
            "code_version": code_version,
            "submitted_at": at,
            "parameters": self.model.parameters,
            "precision": self.model.precision,
        }
        return facts | ({"gpus": self.gpus} if self.tells_gpus else {})


def submit(
    draws: Draws, model: Model, kind: str, gpus: int, hours: float, *, at: int, **named: object
) -> Job:
    """Draw a job that trains for about *hours* if nothing gets in its way.

    *named* are its ``name`` and whether it ``goes_first``.
    """
    low, high = MFU_BOUNDS
    mfu = min(high, max(low, model.mfu * (0.98 + 0.04 * draws.share())))
    step_us = draws.about(5 * SECOND, 0.3)
    peak = PEAK_FLOPS[model.hardware, model.precision]
    length_us = draws.about(hours * HOUR, 0.25 if kind == "pretrain" else 0.6)
    return Job(
        name=str(named["name"]),
        model=model,
        kind=kind,
        gpus=gpus,
        goes_first=bool(named["goes_first"]),
        submitted_at=at,
        steps=max(20, length_us // step_us),
        step_us=step_us,
        flops_a_step=gpus * peak * mfu * step_us / SECOND,
        tells_gpus=kind == "pretrain" or not draws.chance(_UNKNOWN_SIZE),
    )
