"""Which commands are run, and what each of them printed."""

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.golden import console
from tests.golden.server import ETT, environment

DAYS = "--from 2026-03-06T00:00:00Z --to 2026-03-09T00:00:00Z"
BASE = "--base-from 2026-03-03T00:00:00Z --base-to 2026-03-06T00:00:00Z"
SPOT = (
    "--accelerators 64 --mfu 0.4 --flops 1e21 --hardware A100 --discount 60% --restart 5m"
    " --interrupted-every 2h --save 20s --scale 512,4096 --failures-per-node-day 0.0038"
)

OF_THE_SERVER = (
    "jobs --limit 5",
    "jobs --project default --state running --sort -failures --limit 3",
    "jobs corrections live-failed",
    "jobs delete live-queued --dry-run",
    "job live-failed",
    "job --project default llm-405b-pretrain-03-06",
    "markers list",
    f"fleet {DAYS} --by team",
    f"explain {DAYS} {BASE} --limit 5",
    f"explain {DAYS} {BASE} --by owner",
    f"changes {DAYS}",
    f"what-if {DAYS} 'cut pt2_compile by 40 %' 'halve infra failures'",
    "checkpoint-advice live-failed",
    f"checkpoint-advice {DAYS} --by cluster",
    "compile-advice live-failed",
    f"compile-advice {DAYS} --where model:llm-live --by team",
    (
        f"estimate --accelerators 512 --mfu 40% --parameters 7e9 --tokens 2e12 --hardware H100"
        f" --measured {DAYS}"
    ),
    "regressions list",
    "regressions explain {regression}",
    "regressions compare --base code_version:4.1 --with code_version:4.2",
    "regressions mutes",
    "regressions causes",
    "regressions tuning",
    "regressions confirm {regression}",
    "report --week 2026-W10",
    "receivers list",
    "receivers deliveries generic",
)
"""Asked of a running server, both as text and as JSON."""

OF_THE_DATABASE = (
    "keys list --json",
    "config show",
    "config show --json",
    "config check",
    "migrate --json",
    f"estimate {SPOT} --json",
    f"estimate {SPOT}",
    "detect --at 2026-03-09 --json",
    "detect --at 2026-03-09 --project research --power",
    "verify --fleet --json",
    "recompute --processes 1 --json",
    "export openmetrics --step 1d --label job=ett",
)
"""Run where the database lies, while nothing serves it."""

AS_THEY_ARE = (
    "regressions power --where model:llm-slow --json",
    f"export jobs --project default {DAYS}",
    f"export jobs {DAYS} --where cluster:larch --format json",
    f"export summary --by team {DAYS}",
    f"export series --by cluster --step 1d {DAYS}",
    *(f"export {what} --job live-failed" for what in ("attempts", "segments", "events")),
    f"changes {DAYS} -o changes.svg",
    "import mlperf mlperf.log --dry-run",
    "rules",
    "rules --kubernetes --target 0.85",
)
"""Asked of a running server or of nobody, as they are."""

HELP = "--help"
"""Asked of every verb."""

HTML = "report --week 2026-W10 --format html --by team"

WHY = "--why 'The switch of rack 5 was replaced.'"

THAT_WRITE = (
    f"jobs verdict live-preempted 1 --cause oom {WHY}",
    f"jobs verdict live-preempted 1 --take-back {WHY}",
    f"jobs exclude live-running --from 2026-03-09T04:00:00Z {WHY}",
    "jobs include live-running",
    "jobs delete live-queued --yes",
    "markers add 'Trainer 4.3' --kind deploy --at 2026-03-08T00:00:00Z --label model:x --id made",
    "markers delete made --yes",
    f"regressions triage {{resolved}} noise {WHY}",
    f"regressions acknowledge {{resolved}} {WHY}",
    "regressions unmute {other_mute}",
    f"regressions accept {{regression}} {WHY}",
    "receivers add made https://127.0.0.1:1/ett --where model:x",
    "receivers rotate made",
    "receivers remove made --yes",
    "receivers test slack",
    "receivers replay generic",
    "keys create --project research --name made --scope read --url {url}",
    "keys rotate {key} --overlap 1h --url {url}",
    "keys revoke {key} --yes --url {url}",
)
"""Each follows from those before it; as JSON alone."""

_IMPORTS = (
    "csv", "dlrover", "goodput", "k8s", "log", "megatron", "mlflow", "nvrx", "one-logger", "otlp",
    "parquet", "sacct", "torch-trace", "torchelastic", "wandb",
)  # fmt: skip

NOT_RUN = {
    "audit": "it asks no service",
    **dict.fromkeys([f"import {each}" for each in _IMPORTS], "as MLPerf, which is recorded"),
    "prune": "it deletes what others read; `--dry-run` prints sizes of the machine",
    "mcp": "it speaks a protocol of its own",
    "watch kubernetes": "it needs a cluster",
    "watch slurm": "likewise",
    "audit-log": "its entries have drawn ids and the instants of what was done",
    "keys usage": "sums are written at times, and depend on when they are read",
    "backup": "it writes a file; recorded are the surfaces of a service",
    "completion": "it prints code of argcomplete's",
    "demo": "it makes the fleet; recorded as such",
    "doctor": "it tells of the machine",
    "regressions mute": "it prints a drawn id; the request is recorded",
    "run": "recorded as what it sends",
    "serve": "it serves all along",
    "sync": "recorded as what it sends",
    "worker": "`serve` has one inside",
}
"""Verbs that are not run here, and why."""

FAIL = (
    "job nobody",
    "jobs --limit many",
    "fleet --from yesterday",
    "what-if 'be quick'",
    "report --week 2026-W10 --fail-under 0.99",
    "regressions list --fail-on firing",
    "verify --config nowhere.toml",
    "jobs --url http://127.0.0.1:1",
    "jobs --key ett_nobody",
    "dance",
)
"""They are refused, or a gate of theirs is not met."""


def run(folder: Path, commands: Sequence[str], **variables: str) -> Mapping[str, Mapping[str, Any]]:
    """Run commands in *folder*, and return what each printed by its words."""
    done = subprocess.run(
        [sys.executable, "-P", console.__file__, ETT],
        input=json.dumps([shlex.split(command) for command in commands]),
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {shlex.join(printed["command"]): printed for printed in json.loads(done.stdout)}
