"""The frameworks that trainers use, in an environment of their own beside this one.

    python -m tests.builders.frameworks [--all]

makes it or completes it. Behind its own packages it has those of this environment, so that PyTorch
is there once and is never chosen anew.
"""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.ingest.decode import decode
from ett_service.ingest.wire import Limits
from tests.builders.installed import python_path
from tests.builders.trainers import environment

QUICK = ("accelerate==1.15.0", "lightning==2.6.6", "transformers==5.23.0")
SLOW = ("jax==0.10.2", "orbax-checkpoint==0.12.8", "ray[train]==2.60.0")
"""What is large, for the tests in their long form."""

ALONE = ("torch_checkpointing==0.1.1", "torchtitan==0.3.0")
"""What is wanted without the packages that it asks for: they are there, or not needed here."""

FOLDER = Path(os.environ.get("TEST_FRAMEWORKS") or Path(sys.prefix) / "frameworks")
REPOSITORY = Path(__file__).parents[2]
PYTHON = FOLDER / "bin" / "python"

_RUNS = Path(__file__).with_name("framework_runs.py")
_SECONDS = 240


@dataclass(frozen=True, slots=True)
class Run:
    """A program with its arguments, and what its environment has besides."""

    program: Path
    arguments: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


def needed(*modules: str) -> None:
    """Skip the test where a framework is not installed."""
    folder = next(FOLDER.glob("lib/python*/site-packages"), FOLDER)
    missing = [module for module in modules if not (folder / module).exists()]
    if missing:
        pytest.skip(f"{', '.join(missing)} not in {FOLDER}: run `make setup`, or `make live`")


def example(name: str, *arguments: object, **env: str) -> Run:
    """Return a run of a program in ``examples``."""
    return Run(REPOSITORY / "examples" / name, [str(each) for each in arguments], env)


def run(module: str, spool: Path, url: str, runs: Sequence[Run]) -> list[int]:
    """Run programs one after the other, each in a fork of one process that has *module* imported.

    Returns their exit codes. What they print comes out where a test fails.
    """
    described = [
        {"program": str(each.program), "arguments": [*each.arguments], "env": dict(each.env)}
        for each in runs
    ]
    variables = {
        "PYTHONPATH": python_path(spool.with_name("installed")),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run(
        [PYTHON, _RUNS, module, json.dumps(described)],
        env=environment(spool, url, **variables),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    print(done.stdout, done.stderr)  # noqa: T201 -- shown where the test fails
    assert done.returncode == 0, done.stderr
    codes: list[int] = json.loads(done.stdout.splitlines()[-1])
    return codes


def lives(events: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    """The events of each process, in the order of their instants, oldest process first.

    Those of PyTorch's hooks, and signs of life that no framework gave, are left out.
    """
    producers = sorted({event["producer"] for event in events})
    others = [event for event in events if not _is_automatic(event)]
    return [
        sorted(
            (dict(event) for event in others if event["producer"] == producer),
            key=lambda event: int(event["mono_us"]),
        )
        for producer in producers
    ]


def _is_automatic(event: Mapping[str, Any]) -> bool:
    source = event.get("attributes", {}).get("source")
    return source == "auto" or (event["type"] == "heartbeat" and source is None)


def story(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """What happened, in words: phases by name with + and -, the rest by its type and step.

    Of progress without anything between, the first and the last: a slow machine reports more.
    """
    signs = {"phase_started": "+", "phase_ended": "-"}
    words = []
    kinds = [event["type"] for event in events]
    for place, event in enumerate(events):
        if kinds[max(0, place - 1) : place + 2] == ["progress"] * 3:
            continue
        if sign := signs.get(event["type"]):
            words.append(sign + event.get("stage", event["phase"]))
        else:
            words.append(" ".join(str(event[name]) for name in ("type", "step") if name in event))
    return words


def source_of(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the framework's module said of itself."""
    named = [event["attributes"] for event in events if event["type"] == "heartbeat"]
    (about,) = [attributes for attributes in named if "source" in attributes]
    return dict(about)


def sources(events: Sequence[Mapping[str, Any]]) -> set[str | None]:
    """Who reported them, but for what the client reports itself: the attempt and the launch."""
    own = ("attempt_started", "attempt_ended", "heartbeat", "job")
    return {
        event.get("attributes", {}).get("source")
        for event in events
        if event["type"] not in own
        and not (event.get("phase") == "launcher_init" and "stage" not in event)
    }


def ledger_of(events: Sequence[Mapping[str, Any]]) -> JobLedger:
    """Fold events as they were sent."""
    body = json.dumps({"events": [*events]}).encode()
    kind = {"content-type": "application/json"}
    now_us = 2**52
    batch = decode(body, kind, now_us=now_us, limits=Limits())
    assert batch.refusals == ()
    return fold([arrival.event for arrival in batch.arrivals], {}, now_us)


def seconds(ledger: JobLedger, category: str) -> float:
    """How long the job spent on a category."""
    return sum(share.us for share in ledger.shares if share.category == category) / 1e6


def install(*, slow: bool) -> None:
    """Make the environment, or complete it."""
    if not PYTHON.exists():
        _run(sys.executable, "-m", "venv", "--without-pip", str(FOLDER))
        (own,) = FOLDER.glob("lib/python*/site-packages")
        (own / "behind.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    pip = (sys.executable, "-m", "pip", "--python", str(PYTHON), "install", "--quiet")
    _run(*pip, *QUICK, *(SLOW if slow else ()))
    _run(*pip, "--no-deps", *ALONE)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    install(slow="--all" in sys.argv[1:])
