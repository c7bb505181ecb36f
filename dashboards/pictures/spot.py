"""Where on the page a panel is drawn, and in which colours its series are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dashboards.build.colours import GOOD, PHASE_COLOURS, QUIET
from dashboards.build.kit import Field, Paint, Panel
from ett_service.charts.palette import COLOURS
from ett_service.charts.svg import shortened

INK = "#24292e"
FAINT = "#6e7681"
RULE = "#d0d7de"
TEXT_PT = 7.5
TITLE_PT = 9.0
POINT_PX = 100 / 72
"""At 100 pixels an inch, which every page is drawn at."""

_HUES = tuple(dict.fromkeys([GOOD, *reversed(list(COLOURS.values()))]))
_OF_GRAFANA = {"blue": "#5794f2", "orange": "#ff9830"}
"""Colours that Grafana has names for."""

_ENTRY_PX = 16.0
_INSET_PX = 14.0


@dataclass(frozen=True, slots=True)
class Spot:
    """A rectangle of a page, in pixels from its upper left corner."""

    figure: Figure
    left: float
    top: float
    width: float
    height: float

    def axes(self, margins: tuple[float, float, float, float]) -> Axes:
        """Return axes inside of the margins: left, right, top and bottom, in pixels."""
        left, right, top, bottom = margins
        wide, high = self.figure.get_size_inches() * 100
        place = (
            (self.left + left) / wide,
            1 - (self.top + self.height - bottom) / high,
            max(self.width - left - right, 1) / wide,
            max(self.height - top - bottom, 1) / high,
        )
        axes = self.figure.add_axes(place)
        for side in ("top", "right", "left", "bottom"):
            axes.spines[side].set_visible(side == "bottom")
            axes.spines[side].set_color(RULE)
        axes.tick_params(labelsize=TEXT_PT, colors=FAINT, length=0)
        return axes

    def text(self, x: float, y: float, words: str, **style: object) -> None:
        """Write *words* at so many pixels from the spot's upper left corner."""
        wide, high = self.figure.get_size_inches() * 100
        style = {"fontsize": TEXT_PT, "color": INK, "va": "center", "parse_math": False, **style}
        place = ((self.left + x) / wide, 1 - (self.top + y) / high)
        self.figure.text(*place, words, **style)  # type: ignore[arg-type]

    def box(self, x: float, y: float, size: tuple[float, float], colour: str, **more: str) -> None:
        """Fill a rectangle whose upper left corner lies at *x* and *y*."""
        wide, high = self.figure.get_size_inches() * 100
        corner = ((self.left + x) / wide, 1 - (self.top + y + size[1]) / high)
        drawn = {"facecolor": colour, "linewidth": 0.8, "zorder": -1, **more}
        self.figure.add_artist(
            Rectangle(
                corner,
                size[0] / wide,
                size[1] / high,
                transform=self.figure.transFigure,
                **drawn,  # type: ignore[arg-type]
            )
        )

    def legend(self, entries: Sequence[tuple[str, str]]) -> None:
        """Write names and their colours along the lower edge, as many as there is room for."""
        x, y = _INSET_PX, self.height - 27
        for place, (name, colour) in enumerate(entries):
            rest = len(entries) - place
            words = fitting(name, self.width / 2)
            needed = _ENTRY_PX + width_of(words)
            on_last = y > self.height - 20
            if x + needed > self.width - (46 if rest > 1 and on_last else 8):
                if on_last:
                    self.text(x, y, f"+{rest}", color=FAINT)
                    return
                x, y = _INSET_PX, self.height - 12
            self.box(x, y - 4, (9, 8), colour)
            self.text(x + 13, y, words, color=FAINT)
            x += needed + 10


def width_of(words: str, size_pt: float = TEXT_PT) -> float:
    """Estimate the width of *words* in pixels."""
    return 0.56 * size_pt * POINT_PX * len(words)


def fitting(words: str, width: float, size_pt: float = TEXT_PT) -> str:
    """Return as much of *words* as fits *width* pixels."""
    return shortened(words, width, size_pt * POINT_PX * 0.9)


def field_of(panel: Panel, name: str) -> Field:
    """Return what a panel says of a series or column."""
    return next((each for each in panel.fields if each.name == name), Field(name=name))


def title_of(panel: Panel, name: str) -> str:
    """Return what a series or column is called."""
    return field_of(panel, name).title or name


def colours_of(panel: Panel, names: Iterable[str]) -> Mapping[str, str]:
    """Return the colour of each series: its category's, the panel's own, or one of its own."""
    colours: dict[str, str] = {}
    for name in names:
        painted = PHASE_COLOURS.get(name) if panel.paint is not Paint.NOWHERE else None
        own = field_of(panel, name).colour or panel.value_colours.get(name)
        own = _OF_GRAFANA.get(own or "", own)
        colours[name] = own or painted or _HUES[len(colours) % len(_HUES)]
    return colours


def threshold_colour(panel: Panel, value: float | None) -> str:
    """Return the colour that a value has by the panel's thresholds."""
    colour = INK
    for each in panel.thresholds:
        if value is not None and (each.value is None or value >= each.value):
            colour = each.colour
    return QUIET if value is None else colour
