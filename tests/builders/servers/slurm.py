"""A Slurm of one node on free ports of the loopback interface, for the life of a test."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.builders.servers.programs import Program, free_port, needed
from tests.builders.servers.slurm_accounts import Accounts
from tests.builders.servers.waiting import wait_for

_DAEMONS = {"munged": "munge", "slurmctld": "slurm-wlm", "slurmd": "slurm-wlm"}

_NO_ACCOUNTS = "AccountingStorageType=accounting_storage/none"

_CONFIGURATION = """
ClusterName=tiny
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/node
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
{accounting}
MpiDefault=none
SelectType=select/cons_tres
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=100000,bf_interval=1
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=2
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=1
PartitionName=gpu Nodes={host} Default=YES PriorityTier=1
PartitionName=urgent Nodes={host} PriorityTier=10
"""


@dataclass(frozen=True)
class Slurm:
    """A cluster with a node of one processor; jobs of ``urgent`` preempt those of ``gpu``."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What its commands need."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def command(self, *command: str) -> str:
        """Run one of its commands, and return what it prints."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @property
    def node(self) -> str:
        """The state of its node."""
        return self.command("sinfo", "--noheader", "--format=%T", "--partition=gpu")

    def submit(self, name: str, script: str, *options: str) -> str:
        """Submit a script, and return the number of its job."""
        answer = self.command(
            "sbatch", "--parsable", "--job-name", name, *options, "--wrap", script
        )
        return answer.partition(";")[0]

    def state(self, job: str) -> str:
        """Return the state of a job that has not been forgotten."""
        return self.command("squeue", "--noheader", "--states=all", "--job", job, "--format=%T")

    def reaches(self, job: str, state: str) -> None:
        """Wait until a job is in a state."""
        wait_for(lambda: self.state(job) == state, lambda: f"{self.state(job)}, not {state}")

    def again(self, job: str) -> None:
        """Let a job that was requeued begin at once, not in two minutes.

        Not in the second in which its node was cleaned up after it, though: the node knows by
        whole seconds which lives of a job were killed, and would refuse this one, too.
        """
        self.reaches(job, "PENDING")
        wait_for(lambda: self.node == "idle", lambda: f"the node is {self.node}, not idle")
        cleaned_up_at = time.time()
        wait_for(lambda: int(time.time()) > int(cleaned_up_at))
        self.command("scontrol", "update", f"jobid={job}", "starttime=now")


@contextmanager
def slurm(hooks: Mapping[str, object], *, keeps_accounts: bool = False) -> Iterator[Slurm]:
    """Run a cluster with more lines in its slurm.conf until the end of the block."""
    daemons = [needed(daemon, package) for daemon, package in _DAEMONS.items()]
    if os.geteuid() != 0:
        pytest.skip("a Slurm node needs root")
    # Short, because a socket lies in it.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    host = socket.gethostname().partition(".")[0]
    ports = {"controller_port": free_port(), "node_port": free_port()}
    accounts = Accounts.of(folder) if keeps_accounts else None
    accounting = accounts.of_controller if accounts else _NO_ACCOUNTS
    lines = _CONFIGURATION.format(folder=folder, host=host, accounting=accounting, **ports)
    more = "".join(f"{name}={value}\n" for name, value in hooks.items())
    (folder / "slurm.conf").write_text(lines + more)
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    cluster = Slurm(folder)
    munged, slurmctld, slurmd = daemons
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _start(stack, cluster, munged, *_munge_options(folder))
        wait_for((folder / "munge.sock").exists)
        if accounts:
            accounts.start(partial(_start, stack, cluster), cluster.command)
        controller = _start(stack, cluster, slurmctld, "-D")
        wait_for(lambda: _answers(cluster), controller.logged)
        node = _start(stack, cluster, slurmd, "-D", "-N", host)
        wait_for(
            lambda: cluster.command("sinfo", "-h", "-o", "%T", "-p", "gpu") == "idle", node.logged
        )
        yield cluster
        stack.callback(cluster.command, "scancel", "--user=root")


def _start(stack: ExitStack, cluster: Slurm, *command: str) -> Program:
    program = Program(command, cluster.folder, cluster.environment)
    stack.callback(program.stop)
    return program


def _munge_options(folder: Path) -> list[str]:
    files = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid"}
    files |= {"log-file": "munged.log", "seed-file": "munge.seed"}
    options = [f"--{option}={folder / name}" for option, name in files.items()]
    return ["--foreground", "--force", "--num-threads=1", *options]


def _answers(cluster: Slurm) -> bool:
    ping = subprocess.run(
        ["scontrol", "ping"], env=cluster.environment, capture_output=True, text=True, check=False
    )
    return ping.returncode == 0
