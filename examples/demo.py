"""``make demo``: a fleet, a real training job that lands in it through a crash, and its ledger.

``ett demo`` serves a synthetic fleet, from SQLite in a folder of its own. Then a job is trained
under ``ett run`` and torchrun, and its ledger is printed and compared with the fleet. Progress goes
to standard error, numbers to standard output. On a terminal the service keeps running.
"""

import argparse
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ett_service.client.sending.transport import Unreachable, request

JOB = "copy"
TRAINER = Path(__file__).with_name("trainer.py")
PROGRAMS = Path(sys.executable).parent
MICROSECONDS = 1_000_000

_SETTLED_S = 15
_ANSWER_LIMIT = 1 << 26
_SHOWN_LINES = 30


class Trouble(Exception):
    """What went wrong, and what to try."""


@dataclass(frozen=True)
class Server:
    """A running service and a key for it."""

    url: str
    key: str
    pages: str  #: signs a browser in, once

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which the client and the command line find it."""
        return without_ours() | {"ETT_URL": self.url, "ETT_API_KEY": self.key}

    def answer(self, path: str) -> Any:
        """Return what the service answers, None where it has nothing there yet."""
        try:
            answer = request("GET", self.url + path, self.key, answer_limit=_ANSWER_LIMIT)
        except Unreachable as error:
            raise Trouble(f"the service is gone: {error}") from error
        return json.loads(answer.body) if answer.status == HTTPStatus.OK else None


class Teller:
    """Says what is happening, with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Run the demo and return its exit code."""
    args, for_trainer = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the service would be left behind
    try:
        with ExitStack() as stack:
            folder = args.folder
            if folder is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ett-demo-")))
            demo(folder, args.days, for_trainer)
    except Trouble as trouble:
        print(f"demo: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130
    return 0


def demo(folder: Path, days: int, for_trainer: Sequence[str]) -> None:
    """Serve a fleet, train in it and show. Raises ``Trouble``."""
    tell = Teller()
    check(folder)
    tell("starting the service with a synthetic fleet")
    with served(folder, days) as server:
        tell(f"serving {server.url} (/docs, /metrics)")
        show_regressions(server)
        tell("training a job that is killed once and restarted; the first compile takes longest")
        train(server, folder, for_trainer, tell)
        job = finished(server)
        tell("done; this is where its time went")
        show(server)
        print("\n" + conservation(job) + "\n")
        show_place(server, job)
        if sys.stdout.isatty():
            stay(server)


def check(folder: Path) -> None:
    """Raise ``Trouble`` where something is missing."""
    for package in ("torch", "fastapi", "rich"):
        if importlib.util.find_spec(package) is None:
            raise Trouble(f"{package} is not installed here.\nTry: make demo, which installs it.")
    if folder.exists() and any(folder.iterdir()):
        raise Trouble(f"{folder} is not empty.\nTry: --folder with a new folder, or without it.")
    folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def served(folder: Path, days: int) -> Iterator[Server]:
    """Run ``ett demo`` until the block ends. Raises ``Trouble``."""
    command = [str(PROGRAMS / "ett"), "demo", "--json", f"--days={days}", f"--directory={folder}"]
    process = subprocess.Popen(  # noqa: S603 -- our own command
        command,
        env=without_ours(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for this program, which ends it when it is done
    )
    try:
        assert process.stdout is not None
        # It says where it serves when the fleet is in it, and nothing where it fails.
        printed = ""
        for line in process.stdout:
            printed += line
            if line == "}\n":
                break
        else:
            raise Trouble("the service did not start; the reason is above.\nTry: ett doctor")
        ready = json.loads(printed)
        yield Server(ready["url"], ready["key"], ready["pages"])
    finally:
        process.terminate()
        process.communicate()


def show_regressions(server: Server) -> None:
    """Print what the search found in the fleet, the costliest first. Raises ``Trouble``."""
    query = {"verdict": "regression", "sort": "-gpu_hours_per_week"}
    answer = server.answer("/v1/regressions?" + urlencode(query))
    if answer is None:
        raise Trouble("the regressions could not be read.")
    print(f"\n{'slower':30}{'where':34}{'factor':>7}{'GPU-h a week':>14}  since")
    for regression in answer["regressions"]:
        what = regression["phase"] or regression["metric"]
        where = " ".join(regression["cohort"].values()) or "everywhere"
        hours = regression["impact"]["gpu_hours_per_week"]
        lost = "-" if hours is None else f"{hours:,.0f}"
        since = regression["onset_at"][:10]
        print(f"{what:30}{where:34}{regression['ratio']:>7.2f}{lost:>14}  {since}")
    print("(`ett regressions explain ID` says what each is associated with)\n", flush=True)


def train(server: Server, folder: Path, for_trainer: Sequence[str], tell: Teller) -> None:
    """Run the training job to its end, and print what the trainer prints. Raises ``Trouble``."""
    log = folder / "training.log"
    torchrun = [str(PROGRAMS / "torchrun"), "--standalone", "--max-restarts=1", str(TRAINER)]
    torchrun += ["--folder", str(folder / "checkpoints"), *for_trainer]
    variables = {
        "ETT_SPOOL": str(folder / "spool"),
        "OMP_NUM_THREADS": "1",  # so small a model trains no faster on more
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    command = [str(PROGRAMS / "ett"), "run", "--job", JOB, "--", *torchrun]
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 -- our own command
            command,
            env=server.environment | variables,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            tell(line.rstrip())
    finally:
        if process.poll() is None:
            process.terminate()
        code = process.wait()
    if code:
        raise Trouble(
            f"the training ended with exit code {code}; it said:\n{tail(log)}\n"
            f"Try the trainer alone: {shlex.join(torchrun)}"
        )


def finished(server: Server) -> Mapping[str, Any]:
    """Return the job's answer when all its events are in its numbers. Raises ``Trouble``."""
    deadline = time.monotonic() + _SETTLED_S
    while time.monotonic() < deadline:
        job: Mapping[str, Any] | None = server.answer(f"/v1/jobs/{JOB}")
        ready = server.answer("/readyz")
        if job and job["state"] == "finished" and ready and not ready["waiting_jobs"]:
            return job
        time.sleep(0.1)
    raise Trouble(
        f"{_SETTLED_S} s after its end the service does not know the job as finished.\n"
        "Try: --folder FOLDER, and read server.log and training.log there."
    )


def show(server: Server) -> None:
    """Print the job's ledger. Raises ``Trouble``."""
    shown = subprocess.run(  # noqa: S603 -- our own command
        [PROGRAMS / "ett", "job", JOB], env=server.environment, check=False
    )
    if shown.returncode:
        raise Trouble("the ledger could not be shown; the reason is above.")


def conservation(job: Mapping[str, Any]) -> str:
    """Say that the categories sum to the wall time. Raises ``Trouble`` if they do not."""
    parts = sum(round(seconds * MICROSECONDS) for seconds in job["categories"].values())
    whole = round(job["e2e_seconds"] * MICROSECONDS)
    if parts != whole:
        raise Trouble(f"the categories sum to {parts} us of {whole} us. Please report this.")
    return f"The categories sum to the job's wall time: {parts:,} = {whole:,} microseconds."


def show_place(server: Server, job: Mapping[str, Any]) -> None:
    """Print where the job stands among those of the last week. Raises ``Trouble``."""
    model = job["model"]
    whole, cohort = (
        server.answer("/v1/fleet/summary?" + urlencode(query))
        for query in ({}, {"where": f"model:{model}"})
    )
    if whole is None or cohort is None:
        raise Trouble("the fleet's numbers could not be read.")
    others = [other for other in listed(server, whole["from"]) if other["job"] != JOB]
    fleet, alike = whole["total"], cohort["total"]
    print(f"Its place in the last week, among {len(others):,} synthetic jobs:")
    print(f"{'':15}{'this job':>10}{model:>18}{'fleet':>10}  better than")
    ratios = (job["ett_ratio"], alike["ett_ratio_wall"], fleet["ett_ratio_wall"])
    starts = (
        job["time_to_start_seconds"],
        *(group["time_to_start"]["p50"] for group in (alike, fleet)),
    )
    for name, shown, worse in (
        ("ETT%", map(percent, ratios), better(job, others, "ett_ratio", 1)),
        ("time to start", map(seconds, starts), better(job, others, "time_to_start_seconds", -1)),
    ):
        mine, theirs, all_of_it = shown
        print(f"{name:15}{mine:>10}{theirs:>18}{all_of_it:>10}  {worse}")
    print("(ETT% by wall time, as this job has no accelerators; time to start: the median to 2%)")


def listed(server: Server, since: str) -> list[Mapping[str, Any]]:
    """Return all jobs with time since an instant."""
    jobs: list[Mapping[str, Any]] = []
    query = {"limit": "1000", "from": since}
    while True:
        page = server.answer("/v1/jobs?" + urlencode(query)) or {"jobs": [], "next_cursor": None}
        jobs += page["jobs"]
        if page["next_cursor"] is None:
            return jobs
        query["cursor"] = page["next_cursor"]


def better(
    job: Mapping[str, Any], others: Sequence[Mapping[str, Any]], member: str, sign: int
) -> str:
    """Say than how many others the job is better; *sign* is 1 where more is better, else -1."""
    theirs = [other[member] for other in others if other[member] is not None]
    if job[member] is None or not theirs:
        return "-"
    worse = sum(sign * each < sign * job[member] for each in theirs)
    return f"{worse / len(theirs):.0%} of {len(theirs):,} jobs"


def stay(server: Server) -> None:
    """Keep the service up until Ctrl-C."""
    print(f"\nThe service runs at {server.url}/docs until Ctrl-C. In another terminal:")
    print(f"  export ETT_URL={server.url} ETT_API_KEY={server.key}")
    print("  ett fleet --by team\n  ett explain --by team\n  ett regressions list\n  ett job copy")
    print(f"\nThe fleet in a browser, signed in once:\n  {server.pages}")
    try:
        signal.pause()
    except KeyboardInterrupt:
        print()


def percent(ratio: float) -> str:
    """Show a ratio as percent."""
    return f"{ratio:.2%}"


def seconds(length: float | None) -> str:
    """Show a duration in seconds."""
    return "-" if length is None else f"{length:,.1f} s"


def without_ours() -> dict[str, str]:
    """Return the environment without any setting of a service or trainer elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ETT_")}


def tail(log: Path) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])


def arguments() -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; what is not the demo's own is the trainer's."""
    parser = argparse.ArgumentParser(
        description="Serve a synthetic fleet, train a model through a crash, show its ledger.",
        epilog="Further arguments go to the trainer: examples/trainer.py --help.",
    )
    parser.add_argument(
        "--folder", type=Path, help="keep everything there; by default nothing is kept"
    )
    parser.add_argument("--days", type=int, default=60, help="length of the fleet (default 60)")
    args, rest = parser.parse_known_args()
    args.folder = args.folder and args.folder.absolute()
    return args, rest


if __name__ == "__main__":
    sys.exit(main())
