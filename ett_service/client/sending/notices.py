"""Lines on standard error for whoever runs a trainer: where its events go, and how it stands."""

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote as quote_for_shell
from urllib.parse import quote

from ett_service.client.sending.courier import Tally
from ett_service.client.sending.delivery import Target
from ett_service.client.sending.transport import Unreachable, request

ASK_SECONDS = 1.0
_ASK_EVERY_SECONDS = 0.2
_OK, _NOT_FOUND = 200, 404


def notice(message: str) -> None:
    """Write one line to standard error, if there is one."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"ett: {message}\n")
        sys.stderr.flush()


def goes_on(job: str, outcome: object) -> str:
    """Return what a launch does to a job that was finished, with the *outcome* of its end.

    That is None where nobody has said that no attempt will follow.
    """
    if outcome is not None:
        return f"job {job} was finished: this launch begins another run of it"
    return f"job {job} was finished, but nobody ended it: the time since then is restart wait"


@dataclass(frozen=True, slots=True)
class Closing:
    """What has become of the events of a process, or of a launch, when it is over."""

    job: str
    target: Target | None  #: where they go; None where they are only kept
    directory: Path  #: of the spools of the job
    tally: Tally
    unsent: int  #: events that lie in the spool
    trouble: str = ""  #: why they do
    lost: int = 0  #: events that are nowhere

    def line(self, seconds: float = ASK_SECONDS) -> str:
        """Return how many events went where, ETT% so far and the command that shows more.

        Where events are left, it says why, and the command that sends them. The service is asked
        for so many *seconds* at most.
        """
        parts = self._kept()
        if self.lost:
            parts.append(f"{_events(self.lost)} lost, which could not be kept in {self.directory}")
        if self.target is not None and not self.unsent and (self.sent or not parts):
            parts = [*self._sent(self.target, seconds), *parts]
            parts.append(f"more: ett job {quote_for_shell(self.job)}")
        return f"{self.job}: {'; '.join(parts or ['no events'])}"

    @property
    def sent(self) -> int:
        """How many events the server has."""
        return self.tally.accepted + self.tally.duplicate

    def _kept(self) -> list[str]:
        """Say what lies in the spool and why, and the command that sends it."""
        if not self.unsent:
            return []
        directory = quote_for_shell(str(self.directory))
        if self.target is None:
            words = f"{_events(self.unsent)} kept, as ETT_URL is not set"
            return [f"{words}; to send them: ett sync {directory} --url URL"]
        reason = f" ({self.trouble})" if self.trouble else ""
        return [f"{_events(self.unsent)} not sent{reason}; later: ett sync {directory}"]

    def _sent(self, target: Target, seconds: float) -> list[str]:
        parts = [f"{_events(self.sent)} sent to {target.url}"]
        if self.tally.rejected:
            parts.append(f"{self.tally.rejected} refused, see refused.jsonl in {self.directory}")
        if (ratio := _ett_ratio(self.job, target, seconds)) is not None:
            parts.append(f"ETT {ratio:.1%} so far")
        return parts


def _events(count: int) -> str:
    return "1 event" if count == 1 else f"{count} events"


def _ett_ratio(job: str, target: Target, seconds: float) -> float | None:
    """Ask for the job's ETT%, which comes soon after its first events; None without an answer."""
    deadline = time.monotonic() + seconds
    while True:
        status, answer = job_answer(job, target, deadline - time.monotonic())
        if status != _NOT_FOUND or time.monotonic() + _ASK_EVERY_SECONDS > deadline:
            break
        time.sleep(_ASK_EVERY_SECONDS)
    ratio = answer.get("ett_ratio")
    return float(ratio) if isinstance(ratio, int | float) else None


def job_answer(job: str, target: Target, seconds: float) -> tuple[int, Mapping[str, object]]:
    """Ask the service about a job; return the status, 0 without an answer, and what it says."""
    address = f"{target.url.rstrip('/')}/v1/jobs/{quote(job, safe='')}"
    try:
        answer = request("GET", address, target.key, timeout=max(seconds, 0.01))
        members = json.loads(answer.body) if answer.status == _OK else {}
    except (Unreachable, ValueError):
        return 0, {}
    return answer.status, members if isinstance(members, dict) else {}
