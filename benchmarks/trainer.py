"""What a real PyTorch trainer pays: its steps with everything on, and its imports.

The floor of a step is the same step in a trainer that does not know of us. Trainers live at the
same time and take turns at a hundred steps, so that a busy machine slows all alike; each run has
fresh processes, because no two of them lie alike in memory. The claim is of the processor time of
the whole process, the sender's thread included. Beside it stand the time by the clock, which what
else runs on the machine moves too, and a second trainer that does not know of us against the
first: what is closer than that cannot be told apart. Imports are compared in fresh processes, in
turns too: ``import torch`` with the automatic hooks against without, and ``import ett_service``,
alone and with the first use of a name, against ``import json``.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.builders.servers.web import serving

CHUNK = 100
STEPS = "steps, on / off"
CLAIMS = {
    STEPS: 1.005,
    "import torch, hooked / not": 1.03,
}
LONGEST_IMPORT_MS = 30.0
KEPT = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_MMAP_THRESHOLD_": "1073741824"}
"""Memory that the C library keeps: giving it back and faulting it in anew costs a step up to a
fifth, or nothing, by what happens to lie at the end of the heap."""

IMPORT_TORCH = """
import time
began, processor = time.perf_counter_ns(), time.process_time_ns()
import torch
print(time.process_time_ns() - processor, time.perf_counter_ns() - began)
"""
IMPORT_OURS = """
import sys, time
before, began = set(sys.modules), time.process_time_ns()
import ett_service
imported = time.process_time_ns()
ett_service.init
used = time.process_time_ns()
ours = {name.partition(".")[0] for name in set(sys.modules) - before}
print(imported - began, used - began, *sorted(ours - sys.stdlib_module_names))
"""
IMPORT_JSON = """
import time
began = time.process_time_ns()
import json
print(time.process_time_ns() - began)
"""


class Spent(NamedTuple):
    """Nanoseconds of a process."""

    processor: int
    clock: int

    @classmethod
    def by_now(cls) -> "Spent":
        """Return what this process has spent, and the time."""
        return cls(time.process_time_ns(), time.monotonic_ns())

    def since(self, before: "Spent") -> "Spent":
        """Return the difference."""
        return Spent(self.processor - before.processor, self.clock - before.clock)

    def and_also(self, more: "Spent") -> "Spent":
        """Return the sum."""
        return Spent(self.processor + more.processor, self.clock + more.clock)


class Runs(NamedTuple):
    """What the same steps took of trainers that took turns."""

    on: Spent
    off: Spent
    again: Spent  #: of another that is not recorded


def train(step_with: Callable[[Any, int], None]) -> None:
    """Take so many steps of a small model for each line of input; print what they took."""
    import torch  # noqa: PLC0415 -- in a trainer only, whose hooks come first
    from torch.utils.data import DataLoader  # noqa: PLC0415 -- likewise

    torch.set_num_threads(1)
    torch.manual_seed(0)
    parts = [torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)]
    model = torch.nn.Sequential(*parts)
    optimizer = torch.optim.AdamW(model.parameters())
    samples: Any = torch.randn(64 * CHUNK, 512)
    n = 0

    def step(batch: Any) -> None:
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for line in sys.stdin:
        began = Spent.by_now()
        for batch in DataLoader(samples, batch_size=64):
            n += 1
            step(batch)
            step_with(optimizer, n)
        print(*Spent.by_now().since(began), flush=True)
        assert line


def recorded() -> Callable[[Any, int], None]:
    """Record with every hook, and return what a script says besides: steps and phases."""
    import ett_service as ett  # noqa: PLC0415 -- in one of the trainers only

    ett.auto("bench")

    def say(_: Any, n: int) -> None:
        ett.step(n, samples=64 * n)
        if n % CHUNK == 0:
            with ett.phase("evaluation"), ett.stage("bench"):
                pass
            with ett.checkpoint(n):
                pass

    return say


def trainer(folder: Path, url: str | None) -> "subprocess.Popen[str]":
    """Start a trainer, recorded where there is somewhere to send to."""
    env = {**os.environ, **KEPT, "ETT_SPOOL": str(folder)} | ({"ETT_URL": url} if url else {})
    command = [sys.executable, __file__, "--train", "on" if url else "off"]
    return subprocess.Popen(  # noqa: S603 -- this program
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def turn(process: "subprocess.Popen[str]") -> Spent:
    """Let a trainer take its hundred steps; return what they took."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return Spent(*map(int, process.stdout.readline().split()))


def in_turns(folder: Path, url: str, steps: int, number: int) -> Runs:
    """Let three trainers take so many steps; who begins changes from turn to turn."""
    with trainer(folder, url) as on, trainer(folder, None) as off, trainer(folder, None) as again:
        trainers = [on, off, again]
        for process in trainers * 2:
            turn(process)  # the first turns import, allocate and warm up
        spent = dict.fromkeys((process.pid for process in trainers), Spent(0, 0))
        for place in range(number, number + steps // CHUNK):
            first = place % len(trainers)
            for process in trainers[first:] + trainers[:first]:
                spent[process.pid] = spent[process.pid].and_also(turn(process))
        for process in trainers:
            assert process.stdin is not None
            process.stdin.close()
    return Runs(*(spent[process.pid] for process in trainers))


def fresh(code: str, folder: Path, **env: str) -> list[str]:
    """Run code in a process of its own, as a script, and return the words that it printed."""
    script = folder / "script.py"
    script.write_text(code, "utf-8")
    done = subprocess.run(  # noqa: S603 -- this program's own words
        [sys.executable, str(script)], env=dict(os.environ) | env, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return done.stdout.split()


def imports_of_torch(folder: Path, pairs: int) -> tuple[list[int], list[int]]:
    """Return the processor time of ``import torch``, hooked and not, pair by pair."""
    hooked = {"ETT_SPOOL": str(folder), "ETT_JOB": "bench", "ETT_AUTO": "1"}
    spent: tuple[list[int], list[int]] = ([], [])
    for pair in range(pairs):
        for on in (True, False) if pair % 2 else (False, True):
            words = fresh(IMPORT_TORCH, folder, **(hooked if on else {"ETT_AUTO": "0"}))
            spent[0 if on else 1].append(int(words[0]))
    return spent


def imports_of_ours(folder: Path, times: int) -> tuple[tuple[float, float, float], set[str]]:
    """Return the milliseconds of our import, of a first use and of json, and what else came."""
    rows, loaded = [], set()
    for _ in range(times):
        imported, used, *names = fresh(IMPORT_OURS, folder)
        (floor,) = fresh(IMPORT_JSON, folder)
        rows.append((int(imported) / 1e6, int(used) / 1e6, int(floor) / 1e6))
        loaded.update(names)
    imported_ms, used_ms, floor_ms = map(statistics.median, zip(*rows, strict=True))
    return (imported_ms, used_ms, floor_ms), loaded - {"ett_service"}


def ratio_of(name: str, pairs: list[tuple[float, float]], unit: str) -> bool:
    """Print the median of the ratios of pairs, with their quartiles; whether its claim holds."""
    low, middle, high = statistics.quantiles([on / off for on, off in pairs], n=4)
    floor = statistics.median(off for _, off in pairs)
    claim = CLAIMS.get(name, math.inf)
    claimed = "" if claim == math.inf else f"at most {claim:g}"
    print(
        f"{name:30}{middle:8.4f}  {claimed:13}  "
        f"({low:.4f} to {high:.4f}, n={len(pairs)}, floor {floor:,.0f} {unit})"
    )
    return middle <= claim


def ratios_of_steps(runs: list[Runs], steps: int) -> bool:
    """Print what recording adds to a step, and how far two of the same are apart."""
    scale = steps * 1000

    def pairs(timed: str, of: str) -> list[tuple[float, float]]:
        each = [(getattr(run, timed), run.off) for run in runs]
        return [(getattr(a, of) / scale, getattr(b, of) / scale) for a, b in each]

    holds = ratio_of(STEPS, pairs("on", "processor"), "us")
    ratio_of("  by the clock", pairs("on", "clock"), "us")
    ratio_of("  off / off", pairs("again", "processor"), "us")
    ratio_of("  off / off, by the clock", pairs("again", "clock"), "us")
    return holds


def main() -> int:
    """Print the ratios; 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--train", choices=("on", "off"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(recorded() if options.train == "on" else lambda *_: None)
        return 0
    with tempfile.TemporaryDirectory() as name, serving() as web:
        folder = Path(name)
        (ours, used, floor), foreign = imports_of_ours(folder, options.pairs)
        on, off = imports_of_torch(folder, options.pairs)
        torch_holds = ratio_of(
            "import torch, hooked / not",
            [(a / 1e6, b / 1e6) for a, b in zip(on, off, strict=True)],
            "ms",
        )
        runs = [in_turns(folder, web.url, options.steps, number) for number in range(options.pairs)]
    steps_hold = ratios_of_steps(runs, options.steps)
    print(
        f"{'import ett_service':30}{ours:8.1f}  at most {LONGEST_IMPORT_MS:g} ms "
        f"({ours / floor:.2f} of import json, {used / floor:.2f} with the first use of a name)"
    )
    print(f"{'third-party modules of it':30}{len(foreign):8}  at most 0")
    return int(not (torch_holds and steps_hold and ours <= LONGEST_IMPORT_MS and not foreign))


if __name__ == "__main__":
    sys.exit(main())
