"""How an MLPerf run ended, from its own last word or from what the launcher said of it."""

import re
from typing import Any, Final

from ett_service.importers.importer import clean
from ett_service.importers.mllog import Log

_LONGEST_MESSAGE: Final = 2000

_CANCELLED = re.compile(r"\*\*\* .{0,200}CANCELLED AT \S+(?: DUE TO (?P<why>[A-Z ]{1,40}))? \*\*\*")
_STATES = {
    None: "CANCELLED",
    "TIME LIMIT": "TIMEOUT",
    "PREEMPTION": "PREEMPTED",
    "NODE FAILURE": "NODE_FAIL",
}
_EXITED = re.compile(r"\btasks? [\d,-]+: (?:Exited with exit code (?P<code>\d{1,3})|(?P<word>\w+))")
_SIGNALS = {"Killed": 9, "Aborted": 6, "Segmentation": 11, "Bus": 7}
_TERMINATED = 143
_RAISED = re.compile(r"^(?:\s*\d+:)?\s*(?:\[rank\d+\]:)?\s*[A-Za-z_.]*(?:Error|Exception): ")


def ending(log: Log, *, launcher_saw_it: bool) -> dict[str, Any] | None:
    """Return the members of ``attempt_ended``; None where the log just stops.

    A run that stopped as it wanted is completed, whatever became of it in its shutdown.
    """
    status = _status(log)
    if status == "success":
        return {"outcome": "completed"}
    if status == "aborted":
        return {"outcome": "completed", "reason": "missed its quality target"}
    if status is not None:
        return {"outcome": "failed", "reason": clean(f"run_stop with status {status}")}
    said = _launcher_word(log.errors)
    if said or launcher_saw_it or any(_RAISED.match(line) for line in log.last_errors):
        message = "\n".join(log.last_errors or log.errors)[:_LONGEST_MESSAGE]
        return {"outcome": "failed", **({"message": message} if message else {}), **said}
    return None


def _status(log: Log) -> str | None:
    """What the last ``run_stop`` says; one without a word is taken for a success."""
    stops = [record for record in log.records if record.key == "run_stop"]
    if not stops:
        return None
    last = max(stops, key=lambda record: record.at_us or 0)
    value = last.value if last.value in ("success", "aborted") else None
    status = last.metadata.get("status") or value or log.value("status")
    return status.lower() if isinstance(status, str) else "success"


def _launcher_word(errors: list[str]) -> dict[str, Any]:
    """What Slurm says: the state it ended the step in, and how the first task went."""
    said: dict[str, Any] = {}
    for line in errors:
        cancelled = _CANCELLED.search(line)
        if cancelled is not None:
            said.setdefault("scheduler_state", _STATES.get(cancelled["why"], "FAILED"))
        elif "exit_code" not in said and "signal" not in said:
            said |= _exit(line)
    return said | _outcome(said.get("scheduler_state"))


def _exit(line: str) -> dict[str, Any]:
    exited = _EXITED.search(line)
    if exited is None:
        return {}
    if exited["code"] is not None:
        code = int(exited["code"])
        return {} if code == _TERMINATED else {"exit_code": code}
    if exited["word"] == "Out":
        return {"scheduler_state": "OUT_OF_MEMORY"}
    return {"signal": _SIGNALS[exited["word"]]} if exited["word"] in _SIGNALS else {}


def _outcome(state: str | None) -> dict[str, str]:
    if state == "CANCELLED":
        return {"outcome": "cancelled"}
    if state == "PREEMPTED":
        return {"outcome": "preempted"}
    if state == "TIMEOUT":
        # A benchmark runs until it converges: the limit is the site's, not the program's.
        return {"outcome": "failed", "origin": "infra", "cause": "scheduler_timeout"}
    return {}
