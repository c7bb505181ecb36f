"""The scripts for Slurm in a folder of their own, and what Slurm gives them."""

import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.builders.servers.waiting import wait_for
from tests.examples.conftest import EXAMPLES

_SCRIPTS = ("prolog.sh", "epilog.sh", "deliver.sh", "events.sh", "settings.sh")


@dataclass(frozen=True)
class Hooks:
    """The scripts as an administrator would install them, with a spool beside them."""

    folder: Path

    @classmethod
    def install(cls, folder: Path, url: str, key: str) -> "Hooks":
        """Copy the scripts, and point them at a server."""
        folder.mkdir()
        for script in _SCRIPTS:
            shutil.copy(EXAMPLES / "slurm" / script, folder)
        hooks = cls(folder)
        text = (folder / "settings.sh").read_text()
        for name, path in (("ETT_CURL", hooks.curl), ("ETT_SPOOL", hooks.spool)):
            (line,) = [line for line in text.splitlines() if line.startswith(f"{name}=")]
            text = text.replace(line, f"{name}={path}")
        (folder / "settings.sh").write_text(text)
        hooks.point_at(url, key)
        return hooks

    @property
    def curl(self) -> Path:
        """The file with the address and the key."""
        return self.folder / "ett.curl"

    @property
    def spool(self) -> Path:
        """Where events wait."""
        return self.folder / "spool"

    @property
    def unsent(self) -> list[Path]:
        """The batches that wait."""
        return sorted((self.spool / "unsent").glob("*"))

    def point_at(self, url: str, key: str) -> None:
        """Write the file of curl as the example has it."""
        text = (EXAMPLES / "slurm" / "ett.curl.example").read_text()
        text = text.replace("https://ett.example", url).replace("ett_...", key)
        self.curl.touch(mode=0o600)
        self.curl.write_text(text)

    def run(self, script: str, environment: Mapping[str, object] | None = None) -> None:
        """Run a script as slurmctld does: with nothing else in its environment."""
        strings = {name: str(value) for name, value in (environment or {}).items()}
        done = subprocess.run(
            [self.folder / script], env=strings, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")

    def delivered(self) -> None:
        """Wait until nothing waits to be sent."""
        wait_for(lambda: not self.unsent, lambda: str(self.unsent))


def beginning(job: int, name: str = "llm", restarts: int = 0, **more: object) -> dict[str, object]:
    """Return what PrologSlurmctld is given."""
    return {
        "SLURM_CLUSTER_NAME": "tiny",
        "SLURM_JOB_ACCOUNT": "(null)",
        "SLURM_JOB_ID": job,
        "SLURM_JOB_NAME": name,
        "SLURM_JOB_NUM_NODES": 2,
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_RESTART_COUNT": restarts,
        "SLURM_JOB_USER": "ada",
        "SLURM_SCRIPT_CONTEXT": "prolog_slurmctld",
        **more,
    }


def end(job: int, state: str, exit_code: str = "0:0", waited: int = 0) -> dict[str, object]:
    """Return what the script of job completions is given: instants in whole seconds."""
    now = int(time.time())
    return {
        "ARRAYTASKID": 4294967294,
        "END": now,
        "EXITCODE": exit_code,
        "JOBID": job,
        "JOBNAME": "llm",
        "JOBSTATE": state,
        "NODES": "n[1-2]",
        "START": now,
        "SUBMIT": now - waited,
    }
