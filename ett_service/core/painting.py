"""Paintings: one attempt's canvas, kept between folds and repainted only where it changed."""

from collections.abc import Iterable, Mapping
from itertools import islice

from ett_service.core.answer import Segment
from ett_service.core.bounds import Life
from ett_service.core.canvas import Canvas
from ett_service.core.interval import Interval
from ett_service.core.replay import Replay, points
from ett_service.core.scene import Own, Past, implied_restore, own, scene
from ett_service.core.span import NEVER, Mark
from ett_service.core.vocabulary import Period


class Painting:
    """What is kept of one attempt from fold to fold."""

    def __init__(self) -> None:
        self.canvas = Canvas()
        self.segments: list[Segment] = []
        self.changed_from = -NEVER  #: the last :meth:`paint` changed nothing before it
        self.edition = 0  #: changes with every repainting
        self._replay: Replay | None = None
        self._fed = 0
        self._replays = 0
        self._replay_key: object = None
        self._view: object = None  #: all that the canvas was painted from
        self._left: object = None  #: the part of it that decides what lies left of the anchor
        self._framing: object = None
        self._own: Own | None = None
        self._looked_at = 0  #: the revision that it is true of

    def look(self, life: Life, windows: list[Interval]) -> Own:
        """Find the attempt's loops in its *windows*, anew only where they may have changed."""
        known = self._own
        if (
            known is None
            or self._looked_at != life.track.revision
            or known.windows != windows
            or (known.life.number, known.life.end) != (life.number, life.end)
        ):
            known = own(life, windows)
        self._looked_at = life.track.revision
        self._own = Own(life, windows, known.loops, known.stretches)
        return self._own

    def paint(self, part: Own, past: Past, allocated_at: int) -> None:
        """Bring the canvas up to date, from nothing unless events only came on at the end."""
        life, track = part.life, part.life.track
        self.changed_from = NEVER
        view = (
            track.revision,
            part.windows,
            allocated_at,
            life.end,
            life.outcome,
            past.version,
        )
        if view == self._view:
            return
        self._view = view
        replay = self._replayed(part, past)
        stage = scene(part, past, allocated_at, replay)
        opens, closes = part.windows[-1] if part.windows else (None, NEVER)
        left = (
            track.version,
            part.windows[:-1],
            opens,
            allocated_at,
            stage.repeat_budget_us,
            self._replays,
        )
        if left != self._left or closes < self.canvas.anchored_at:
            self.canvas = Canvas()
        self._left = left
        self.changed_from = self.canvas.stands_until
        self.edition += 1
        if part.windows:
            self.canvas.paint(track.spans, stage)
        track.settled = self.canvas.anchored_at

    def _replayed(self, part: Own, past: Past) -> Replay | None:
        """Feed the points that are new to the replay, all of them where others changed."""
        track = part.life.track
        if not track.progress:
            self._replay = None
            return None
        implied = implied_restore(part, past)
        key = (past.top_step, track.version, points([], track.restores, implied, part.loops))
        fresh = track.progress[self._fed :]
        replay = self._replay
        if replay is None or key != self._replay_key or _overtaken(replay, fresh):
            replay = self._replay = Replay(past.top_step)
            self._replays += 1
            self._replay_key = key
            marks = points(track.progress, track.restores, implied, part.loops)
        else:
            marks = points(fresh, [], None, [])
        for at, _, _, restored, step in marks:
            replay.add(at, step, restored=restored)
        self._fed = len(track.progress)
        return replay

    def frame(self, number: int, periods: Mapping[int, Period]) -> None:
        """Turn the pieces into segments; *periods* names the period of each zone."""
        framing = (number, periods)
        if framing != self._framing:
            self.changed_from = -NEVER
        elif self.changed_from == NEVER:
            return
        kept = self.canvas.kept if framing == self._framing else 0
        self._framing = framing
        del self.segments[kept:]
        self.segments += [
            Segment(start, end, category, periods[zone], number)
            for start, end, category, zone in islice(self.canvas.pieces, kept, None)
        ]
        if len(set(periods.values())) < len(periods):
            self.segments = _joined(self.segments)


def _joined(segments: Iterable[Segment]) -> list[Segment]:
    """Join neighbours alike: two zones may be of one period where windows are several."""
    joined: list[Segment] = []
    for segment in segments:
        if joined and segment[2:] == joined[-1][2:] and segment.start_at == joined[-1].end_at:
            joined[-1] = joined[-1]._replace(end_at=segment.end_at)
        else:
            joined.append(segment)
    return joined


def _overtaken(replay: Replay, fresh: list[Mark]) -> bool:
    return bool(fresh) and fresh[0][0] <= replay.last_at()
