"""Where a finding stands: its state, and what people said of it."""

from ett_service.pages.ask import Answer
from ett_service.pages.window import moment

_TOLD_ENDINGS = frozenset({"gone", "merged", "accepted"})


def standing(finding: Answer) -> str:
    """Say the state of a finding with all that qualifies it: ``firing, muted until ...``."""
    ended = finding["ended"] if finding["ended"] in _TOLD_ENDINGS else ""
    muted = f"muted until {moment(finding['muted_until'])}" if finding["muted_until"] else ""
    triaged = f"triaged as {finding['triage']}" if finding["triage"] else ""
    acknowledged = "acknowledged" if finding["acknowledged_at"] else ""
    return ", ".join(filter(None, (finding["state"], ended, muted, triaged, acknowledged)))
