"""Stand-ins for Slurm's ``sacct`` and ``squeue``, which print what a file says.

They know the options that a watcher needs: columns, delimiter, window and ids.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders.sacct import COLUMNS, fields

_PROGRAM = f"""#!{sys.executable} -SE
import json, sys
said = json.load(open({{place!r}}))
options = dict(each.lstrip("-").partition("=")[::2] for each in sys.argv[1:])
after = dict(zip(sys.argv[1:], sys.argv[2:]))
if said["trouble"]:
    sys.exit(said["trouble"])
print(*sys.argv[1:], file=open({{place!r}} + ".calls", "a"))
if {{name!r}} == "squeue":
    print(*(job["JobIDRaw"] for job in said["jobs"] if job["State"] == "RUNNING"), sep="\\n")
elif "helpformat" in options:
    print(*said["columns"])
else:
    columns = options["format"].split(",")
    begin, ids = after.get("--starttime", ""), after.get("--jobs", "").split(",")
    print(*columns, sep=options["delimiter"])
    for job in said["jobs"]:
        if job["JobIDRaw"] in ids if "--jobs" in after else job["End"] >= begin:
            print(*(job.get(column, "") for column in columns), sep=options["delimiter"])
"""


@dataclass(frozen=True)
class Accounting:
    """What the stand-ins print; ``End`` of a job that goes on is ``Unknown``."""

    place: Path
    columns: list[str]

    def holds(self, *jobs: Mapping[str, str], trouble: str = "") -> None:
        """Let them print these jobs from now on, or fail with a message."""
        rows = [fields(**job) for job in jobs]
        printed = {"jobs": rows, "columns": self.columns, "trouble": trouble}
        self.place.write_text(json.dumps(printed))

    @property
    def calls(self) -> list[str]:
        """The arguments of each call that was answered."""
        log = Path(f"{self.place}.calls")
        return log.read_text().splitlines() if log.exists() else []


def accounting(folder: Path, monkeypatch: pytest.MonkeyPatch, *more_columns: str) -> Accounting:
    """Put the stand-ins first on PATH."""
    place = folder / "accounting.json"
    for name in ("sacct", "squeue"):
        program = folder / name
        program.write_text(_PROGRAM.format(place=str(place), name=name))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    stand_in = Accounting(
        place, [*(name for name in COLUMNS if name != "ElapsedRaw"), *more_columns]
    )
    stand_in.holds()
    return stand_in
