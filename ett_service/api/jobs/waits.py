"""A job's waits by whose they were."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from ett_service.api.answers import Of, Seconds
from ett_service.core.words import Owner, WaitPart

SecondsByOwner = dict[Owner, Seconds]


def _by_owner(ledger: Any) -> Mapping[WaitPart, Mapping[Owner, int]]:
    parts: dict[WaitPart, dict[Owner, int]] = {}
    for share in ledger.wait_shares:
        parts.setdefault(share.part, {})[share.owner] = share.us
    return {part: parts[part] for part in WaitPart if part in parts}


Waits = Annotated[
    dict[WaitPart, SecondsByOwner],
    Of(_by_owner),
    Field(
        description="By whose wait it was: `queue` sums to `queue_wait_seconds`, the others to "
        "their period. A part without any is absent."
    ),
]
