"""What Megatron-LM prints."""

from pathlib import Path

DAY = "2024-05-13"


def mark(name: str, clock: str) -> str:
    """A mark with its instant."""
    return f"[{name}] datetime: {DAY} {clock} \n"


def start_up(clock: str = "08:00:0") -> list[str]:
    """The marks of a start-up in seconds 1 to 4 of a minute."""
    names = (
        "after megatron is initialized",
        "after model, optimizer, and learning rate scheduler are built",
        "after dataloaders are built",
        "before the start of training step",
    )
    return [mark(name, f"{clock}{second}") for second, name in enumerate(names, 1)]


def iteration(step: int, mean_ms: float, stamp: str = "") -> str:
    """The line of a step; newer versions begin it with its instant."""
    begin = f" [{DAY} {stamp}]" if stamp else ""
    return (
        f"{begin} iteration {step:8}/    1000 | consumed samples: {4 * step:12} | elapsed time per "
        f"iteration (ms): {mean_ms} | learning rate: 1.5E-04 | lm loss: 8.3E+00 |\n"
    )


def saved(step: int, ms: float) -> list[str]:
    """A save and its time."""
    return [
        f"saving checkpoint at iteration {step:7} to /save\n",
        f"  successfully saved checkpoint at iteration {step:7} to /save\n",
        f"time (ms) | save-checkpoint: {ms}\n",
    ]


def cancelled(clock: str, why: str = "") -> str:
    """Slurm's word on the end."""
    return f"slurmstepd: error: *** STEP 513.0 ON n1 CANCELLED AT {DAY}T{clock}{why} ***\n"


def progress(clock: str, what: str, step: int | None = None, launch: str = "513") -> str:
    """A line of ``progress.txt``."""
    rest = "" if step is None else f"\tIteration: {step}\tTokens (in billions): 0.50"
    return f"{DAY} {clock}\tJob ID: {launch}\t# GPUs: 64\t{what}{rest}\n"


def written(path: Path, *lines: str) -> Path:
    """The output at *path*."""
    path.write_text("".join(lines))
    return path
