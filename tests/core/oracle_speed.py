"""The oracle's reading of speed: windows of steps, references, and the time beyond them."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from ett_service.core.events import CheckpointRestored, JobFacts, Progress
from ett_service.core.words import Category
from tests.core.oracle_lives import Life
from tests.core.oracle_pieces import Ownership, facts_of

_STEPS, _WINDOWS = 50, 5


@dataclass
class Window:
    """Neighbouring reports, and the effective time between the first and the last."""

    points: list[Progress]
    us: int
    joined: int = 0  #: how many points at its end came from too few steps for a window

    @property
    def steps(self) -> int:
        return self.points[-1].step - self.points[0].step

    @property
    def tokens(self) -> int | None:
        """Tokens a step, rounded down to two digits, of the points that made it a window."""
        first, last = self.points[0], self.points[len(self.points) - 1 - self.joined]
        if first.tokens is None or last.tokens is None or last.tokens < first.tokens:
            return None
        return _cut((last.tokens - first.tokens) // (last.step - first.step), 2)

    @property
    def step_ns(self) -> int:
        return _cut(self.us * 1000 // self.steps, 4)


def _cut(number: int, digits: int) -> int:
    text = str(number)
    return int(text[:digits] + "0" * len(text[digits:]))


def speeds_of(
    ownership: Ownership, sizes: dict[int, int | None], facts: Iterable[JobFacts]
) -> dict[str, Any]:
    """The references of a run, and each of its attempts' effective time by speed."""
    windows = {id(life): _windows(life, ownership) for life in ownership.lives}
    given = _given(facts)
    by_setting: dict[tuple[int | None, int | None], list[int]] = {}
    for life in ownership.lives:
        for window in windows[id(life)]:
            if window.step_ns:
                setting = (sizes[id(life)], window.tokens)
                by_setting.setdefault(setting, []).append(window.step_ns)
    references = {
        setting: (given or sorted(times)[-(-len(times) // 10) - 1], len(times))
        for setting, times in by_setting.items()
        if given or len(times) >= _WINDOWS
    }
    return {
        "references": references,
        "speeds": [
            _split(life, windows[id(life)], sizes[id(life)], references, ownership)
            for life in ownership.lives
        ],
    }


def _given(facts: Iterable[JobFacts]) -> int | None:
    labels = [
        (e.at, e.labels["reference_step_seconds"])
        for e in facts
        if "reference_step_seconds" in e.labels
    ]
    return int(Fraction(max(labels)[1]) * 10**9) if labels else None


def _windows(life: Life, ownership: Ownership) -> list[Window]:
    points = sorted(facts_of([life], Progress), key=lambda e: (e.at, e.step, e.id))
    windows: list[Window] = []
    for chain in _chains(points, life, ownership):
        windows += _cut_chain(chain, life, ownership)
    return windows


def _chains(points: list[Progress], life: Life, ownership: Ownership) -> list[list[Progress]]:
    chains: list[list[Progress]] = [points[:1]]
    for before, after in pairwise(points):
        if _is_measured(before, after, life, ownership):
            chains[-1].append(after)
        else:
            chains.append([after])
    return chains


def _is_measured(before: Progress, after: Progress, life: Life, ownership: Ownership) -> bool:
    restored = facts_of([life], CheckpointRestored)
    if after.step < before.step or any(before.at < e.at <= after.at for e in restored):
        return False
    own = _time(before, after, life, ownership, list(Category))
    again = _time(before, after, life, ownership, [Category.REPEATED_TRAINING])
    return own == after.at - before.at and again == 0


def _time(
    first: Progress, last: Progress, life: Life, ownership: Ownership, words: list[Category]
) -> int:
    start = bisect_left(ownership.pieces, first.at, key=lambda p: p.end)
    total = 0
    for piece in ownership.pieces[start:]:
        if piece.begin >= last.at:
            break
        if piece.life is life and piece.category in words:
            total += max(0, min(piece.end, last.at) - max(piece.begin, first.at))
    return total


def _cut_chain(chain: list[Progress], life: Life, ownership: Ownership) -> list[Window]:
    groups: list[list[Progress]] = []
    rest = chain[:1]
    for point in chain[1:]:
        rest.append(point)
        if point.step - rest[0].step >= _STEPS:
            groups.append(rest)
            rest = [point]
    if not groups:
        return []
    effective = [Category.EFFECTIVE_TRAINING]
    windows = [Window(g, _time(g[0], g[-1], life, ownership, effective)) for g in groups]
    windows[-1].us += _time(rest[0], rest[-1], life, ownership, effective)
    windows[-1].points += rest[1:]
    windows[-1].joined = len(rest) - 1
    return windows


def _split(
    life: Life,
    windows: list[Window],
    gpus: int | None,
    references: dict[tuple[int | None, int | None], tuple[int, int]],
    ownership: Ownership,
) -> tuple[int, int, int]:
    fast = slow = 0
    ideal = Fraction()
    for window in windows:
        if (gpus, window.tokens) not in references:
            continue
        reference, _ = references[gpus, window.tokens]
        if window.step_ns <= reference:
            fast += window.us
        else:
            slow += window.us
            ideal += Fraction(window.steps * reference, 1000)
    effective = sum(
        p.us for p in ownership.loop_time(life) if p.category is Category.EFFECTIVE_TRAINING
    )
    return fast + int(ideal), slow - int(ideal), effective - fast - slow
