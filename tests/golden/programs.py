"""What programs that import the package see of it: a trainer, and a notebook."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.golden.receiver import receiving
from tests.golden.server import ETT, environment
from tests.golden.steady import Json, abridged, steady

TRAINER = Path(__file__).with_name("trainer.py")
NOTEBOOK = Path(__file__).with_name("notebook.py")

_PYTHON = str(Path(sys.executable).with_name("python"))  # its name is part of what is sent

OF_A_PROCESS = frozenset(
    {
        "at",
        "duration_seconds",
        "host",
        "id",
        "launch",
        "mono_us",
        "producer",
        "sent_at",
        "start",
    }
)
"""Members of what a trainer sends that are its process's own: clocks, its machine, drawn names."""


def wire(folder: Path) -> Json:
    """Run a trainer under ``ett run``, and return all that was sent, and what became of it."""
    with receiving() as receiver:
        variables = environment(
            ETT_URL=receiver.url, ETT_API_KEY="golden", ETT_SPOOL=str(folder / "spool")
        )
        run = [ETT, "run", "--job", "golden", "--json", "--", _PYTHON, str(TRAINER)]
        ran = _output(run, folder, variables).stderr
        synced = _output([ETT, "sync", "--json", "spool"], folder, variables).stdout
    batches = [message.json for message in receiver.messages]
    events = {event["id"]: event for batch in batches for event in batch["events"]}
    return {
        "run": sorted(json.loads(ran)),
        "sync": json.loads(synced),
        "headers": sorted({name for message in receiver.messages for name in message.headers}),
        "batch": sorted({name for batch in batches for name in batch}),
        "events": sorted(map(_placed, events.values()), key=_order),
    }


def frames(folder: Path, drawn: Mapping[str, str], **variables: str) -> Json:
    """Return the columns and rows of every frame, and the parameters of what is public."""
    printed = json.loads(
        _output([sys.executable, str(NOTEBOOK)], folder, environment(**variables)).stdout
    )
    return abridged(steady(printed, drawn))


def _output(
    command: list[str], folder: Path, variables: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def _placed(event: Mapping[str, Any]) -> Json:
    return steady(
        {name: f"<{name}>" if name in OF_A_PROCESS else value for name, value in event.items()}
    )


def _order(event: Mapping[str, Any]) -> tuple[bool, int]:
    """Sort by the process, of which the launcher names no cycle, and by its own numbers."""
    return "cycle" in event, event.get("seq", 0)
