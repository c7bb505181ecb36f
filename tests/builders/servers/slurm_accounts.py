"""Slurm's accounting in MariaDB, for the life of a test."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.builders.servers.programs import Program, free_port, needed
from tests.builders.servers.waiting import wait_for

_PLUGINS = Path("lib/x86_64-linux-gnu/slurm-wlm")

_CONFIGURATION = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=root
StorageLoc=accounts
PidFile={folder}/slurmdbd.pid
PluginDir={plugins}
"""


@dataclass(frozen=True)
class Accounts:
    """A database and slurmdbd in a folder, on free ports of the loopback interface."""

    folder: Path
    slurmdbd: Path
    mariadbd: Path
    port: int
    database_port: int

    @classmethod
    def of(cls, folder: Path) -> "Accounts":
        """Choose the ports; skips the test where a program is not installed."""
        slurmdbd = Path(needed("slurmdbd", "slurmdbd"))
        mariadbd = Path(needed("mariadbd", "mariadb-server-core"))
        return cls(folder, slurmdbd, mariadbd, free_port(), free_port())

    @property
    def of_controller(self) -> str:
        """The lines of slurm.conf."""
        return "\n".join(
            [
                "AccountingStorageType=accounting_storage/slurmdbd",
                "AccountingStorageHost=127.0.0.1",
                f"AccountingStoragePort={self.port}",
                f"AccountingStoragePass={self.folder}/munge.sock",
            ]
        )

    def start(self, start: Callable[..., Program], command: Callable[..., str]) -> None:
        """Start both, and register the cluster."""
        start(*self._database())
        wait_for((self.folder / "mariadb.sock").exists)
        # A package may be unpacked anywhere; Slurm's other plugins lie where Slurm is installed.
        plugins = [each / _PLUGINS for each in (self.slurmdbd.parents[1], Path("/usr"))]
        lines = _CONFIGURATION.format(
            folder=self.folder,
            port=self.port,
            database_port=self.database_port,
            plugins=":".join(dict.fromkeys(map(str, plugins))),
        )
        configuration = self.folder / "slurmdbd.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(lines)
        accounts = start("env", f"SLURM_CONF={configuration}", str(self.slurmdbd), "-D", "-v")
        wait_for(lambda: "slurmdbd version" in accounts.log.read_text(), accounts.logged)
        command("sacctmgr", "--immediate", "add", "cluster", "tiny")

    def _database(self) -> list[str]:
        root, data = self.mariadbd.parents[1], self.folder / "mariadb"
        install = needed("mariadb-install-db", "mariadb-server-core")
        needed("my_print_defaults", "mariadb-client-core")  # which it runs
        options = ["--no-defaults", f"--basedir={root}", f"--datadir={data}", "--user=root"]
        made = [install, *options, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(made, check=True, capture_output=True)
        return [
            str(self.mariadbd),
            *options,
            f"--socket={self.folder / 'mariadb.sock'}",
            f"--port={self.database_port}",
            "--bind-address=127.0.0.1",
            f"--pid-file={self.folder / 'mariadb.pid'}",
            f"--lc-messages-dir={root / 'share/mysql'}",
            "--innodb-lock-wait-timeout=900",
        ]
