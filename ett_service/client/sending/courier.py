"""Carries a spool to the server, piece by piece."""

from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, dataclass, field

from ett_service.client.clock import boot_id, mono_us, rfc3339
from ett_service.client.sending import delivery
from ett_service.client.sending.backlog import Backlog, Piece
from ett_service.client.sending.delivery import Batch, Fate, Target, Verdict


@dataclass(slots=True)
class Tally:
    """What became of the events that were carried."""

    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    unreadable: int = 0

    @property
    def settled(self) -> int:
        """How many lines of the spool need no more work."""
        return self.accepted + self.duplicate + self.rejected + self.unreadable

    def __add__(self, other: "Tally") -> "Tally":
        """Put two together."""
        return Tally(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(slots=True)
class Courier:
    """Sends the unsent part of one spool. ``dropped`` travels with the next batch."""

    target: Target
    backlog: Backlog
    timeout: float = 10.0  #: seconds for one exchange
    dropped: Counter[str] = field(default_factory=Counter)
    tally: Tally = field(default_factory=Tally)
    sent_at: Callable[[], str | None] | None = None  #: the live owner's clock

    def carry_one(self, events: int = delivery.MAX_EVENTS) -> Verdict | None:
        """Send the next *events* at most; None where none is left. ``OSError`` of the disk."""
        piece = self.backlog.next_piece(events, delivery.MAX_BYTES)
        if piece is None:
            return None
        verdict = self.carry(piece.lines) if piece.lines else Verdict(Fate.SETTLED)
        if verdict.fate is Fate.SETTLED and self._is_of_this_store(verdict):
            self._settle(piece, verdict)
        return verdict

    def carry(self, lines: tuple[bytes, ...]) -> Verdict:
        """Send these lines, and keep those that the server will never take."""
        dropped = Counter(self.dropped)
        batch = Batch(lines, self._producer(), self._sent_at(), dropped)
        verdict = delivery.deliver(self.target, batch, self.timeout)
        if verdict.fate is Fate.SETTLED:
            self.dropped.subtract(dropped)
            self.dropped = +self.dropped
            self.tally.accepted += verdict.accepted
            self.tally.duplicate += verdict.duplicate
            self.tally.rejected += len(verdict.refused)
            if verdict.refused:
                self.backlog.refuse(verdict.refused)
        return verdict

    def _is_of_this_store(self, verdict: Verdict) -> bool:
        """Begin anew where another store has taken the place of the one that had the events."""
        if not verdict.epoch or self.backlog.epoch in {"", verdict.epoch}:
            return True
        self.tally = Tally()
        self.backlog.rewind(verdict.epoch)
        return False

    def _settle(self, piece: Piece, verdict: Verdict) -> None:
        self.tally.unreadable += piece.unreadable
        if piece.unreadable:
            self.dropped["unreadable"] += piece.unreadable
        self.backlog.sent += verdict.accepted + verdict.duplicate
        self.backlog.advance(piece.end, verdict.epoch)

    def _producer(self) -> str:
        return self.backlog.directory.name

    def _sent_at(self) -> str | None:
        """Name this instant on the clock of the spool's owner, dead or alive.

        After a reboot its monotonic clock cannot be read any more.
        """
        if self.sent_at is not None:
            return self.sent_at()
        owner = self.backlog.owner
        base = owner.get("base_us")
        if not isinstance(base, int) or not owner.get("boot_id") or owner["boot_id"] != boot_id():
            return None
        return rfc3339(base + mono_us())
