"""Stacked bars: what the time of one or several groups went on, category by category."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ett_service.charts.palette import COLOURS, ink_on, paint, patterns
from ett_service.charts.svg import Markup, chart, element, label, linked, shortened, width_of
from ett_service.charts.units import percent
from ett_service.core.words import WASTED, Category

_WIDTH = 760.0
_BAR = 22.0
_ROW = 34.0
_GAP = 8.0
_SWATCH = 10.0
_BETWEEN = 1.0
_LEGEND_ROW = 20.0
_LABELLED_FROM = 40.0  # a narrower segment has no room for its share


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its name, what it is made of in any one unit, what stands at its end, a link."""

    name: str
    parts: Mapping[Category, float]
    note: str = ""
    href: str = ""

    @property
    def total(self) -> float:
        """The sum of its parts."""
        return sum(self.parts.values())


def stacked_bars(
    ident: str,
    title: str,
    bars: Sequence[Bar],
    *,
    full: float | None = None,
    part_href: Callable[[Category], str] | None = None,
) -> Markup:
    """Draw a bar for each of *bars*, and below them which colour is what.

    Each bar fills the width, which shows shares; with *full* one of that total does, and the
    others are as long as their totals are, which shows amounts. Names of the legend lead where
    *part_href* says.
    """
    spent = [
        category for category in Category if any(bar.parts.get(category, 0.0) > 0 for bar in bars)
    ]
    left = _column([bar.name for bar in bars], 180.0)
    right = _column([bar.note for bar in bars], 120.0)
    room = _WIDTH - left - right
    drawn = [
        _row(ident, bar, (left, index * _ROW), room * _filled(bar, full))
        for index, bar in enumerate(bars)
    ]
    whole = {category: sum(bar.parts.get(category, 0.0) for bar in bars) for category in spent}
    legend, depth = _legend(ident, whole, len(bars) * _ROW + _GAP, part_href)
    return chart(
        ident, (_WIDTH, depth), title, _description(bars), patterns(ident, spent), *drawn, legend
    )


def _column(texts: Sequence[str], most: float) -> float:
    widest = max((width_of(text) for text in texts), default=0.0)
    return min(widest, most) + _GAP if widest else 0.0


def _filled(bar: Bar, full: float | None) -> float:
    if full is None:
        return 1.0
    return min(bar.total / full, 1.0) if full > 0 else 0.0


def _row(ident: str, bar: Bar, corner: tuple[float, float], room: float) -> Markup:
    left, top = corner
    middle = top + _BAR / 2 + 4
    drawn = []
    if bar.name:
        name = label(left - _GAP, middle, shortened(bar.name, 180), text_anchor="end")
        drawn.append(linked(bar.href, name))
    at = left
    total = bar.total
    for category in Category:
        part = bar.parts.get(category, 0.0)
        if part > 0:
            width = room * part / total
            drawn.append(_segment(ident, category, (at, top), width, percent(part / total)))
            at += width
    if bar.note:
        drawn.append(label(at + _GAP, middle, bar.note))
    return element("g", *drawn)


def _segment(
    ident: str, category: Category, corner: tuple[float, float], width: float, share: str
) -> Markup:
    left, top = corner
    area = element(
        "rect",
        element("title", Markup(f"{category} {share}")),
        x=left,
        y=top,
        # The gap keeps neighbours of like colour apart.
        width=max(width - _BETWEEN, _BETWEEN / 2),
        height=_BAR,
        **paint(ident, category),
    )
    is_whole = share == percent(1.0)
    if (
        is_whole
        or width < _LABELLED_FROM
        or category in WASTED
        or category is Category.UNATTRIBUTED
    ):
        return area
    ink = ink_on(COLOURS[category])
    middle = left + width / 2
    return Markup(area + label(middle, top + _BAR / 2 + 4, share, text_anchor="middle", **ink))


def _legend(
    ident: str,
    whole: Mapping[Category, float],
    top: float,
    part_href: Callable[[Category], str] | None,
) -> tuple[Markup, float]:
    total = sum(whole.values())
    left = 0.0
    drawn = []
    for category, part in whole.items():
        text = f"{category} {percent(part / total)}"
        width = _SWATCH + 6 + width_of(text) + 14
        if left + width > _WIDTH and left:
            left, top = 0.0, top + _LEGEND_ROW
        drawn.append(
            element(
                "rect",
                x=left + 0.5,
                y=top + 0.5,
                width=_SWATCH,
                height=_SWATCH,
                **paint(ident, category),
            )
        )
        name = label(left + _SWATCH + 6, top + _SWATCH, text)
        drawn.append(linked(part_href(category) if part_href else "", name))
        left += width
    return element("g", *drawn), top + _LEGEND_ROW


def _description(bars: Sequence[Bar]) -> str:
    return " ".join(_sentence(bar) for bar in bars) or "There is no time to show."


def _sentence(bar: Bar) -> str:
    total = bar.total
    parts = sorted(
        ((category, bar.parts.get(category, 0.0)) for category in Category),
        key=lambda part: -part[1],
    )
    shares = ", ".join(
        f"{category} {percent(part / total)}" for category, part in parts if part > 0
    )
    name = f"{bar.name}: " if bar.name else ""
    return f"{name}{shares or 'no time'}."
