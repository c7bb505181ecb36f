"""Which colour a category has, wherever it is drawn.

The ten hues are Petroff's (arXiv:2107.02270), told apart with any colour vision. A wasted category
is hatched, so that no meaning hangs on hue alone; ``unattributed`` is an outline.
"""

from collections.abc import Iterable, Mapping

from ett_service.charts.svg import Markup, element
from ett_service.core.words import WASTED, Category

COLOURS: Mapping[Category, str] = {
    Category.SCHEDULING: "#94a4a2",
    Category.HARDWARE_SETUP: "#717581",
    Category.LAUNCHER_INIT: "#b9ac70",
    Category.PT2_COMPILE: "#832db6",
    Category.EFFECTIVE_TRAINING: "#3f90da",
    Category.REPEATED_TRAINING: "#3f90da",
    Category.CHECKPOINT_BLOCKING: "#ffa90e",
    Category.RECOMPILE: "#832db6",
    Category.EVALUATION: "#92dadd",
    Category.STALLED: "#bd1f01",
    Category.SHUTDOWN: "#e76300",
    Category.RESTART_WAIT: "#a96b59",
}
"""On a light page. ``unattributed`` has none."""

BETTER = COLOURS[Category.EFFECTIVE_TRAINING]
WORSE = COLOURS[Category.SHUTDOWN]
"""Of a change; always beside a sign and a word."""

SURFACE = "#ffffff"
_DARK_SURFACE = "#111418"
_DARK: Mapping[str, str] = {"#832db6": "#b980e0", "#bd1f01": "#f0694d"}
_HATCH_PX = 6.0
_EVEN_LUMINANCE = 0.195


def _rules(under: str, ink: str = "") -> str:
    recoloured = "".join(
        f"{under} .ett-{colour[1:]}{{fill:{lighter};stroke:{lighter}}}"
        f"{under} .ett-on-{colour[1:]}{{fill:{_DARK_SURFACE}}}"
        for colour, lighter in _DARK.items()
    )
    surface = f"{under} .ett-surface{{fill:{_DARK_SURFACE};stroke:{_DARK_SURFACE}}}"
    return f"{ink}{surface}{recoloured}"


STYLE = (
    "@media(prefers-color-scheme:dark){"
    + _rules(":root:not([data-theme=light])")
    + "}"
    + _rules(":root[data-theme=dark]")
)
"""The style that charts on a page share: what is too dark there, lighter on a dark page.

A page chooses by itself with ``data-theme`` on its root, ``light`` or ``dark``.
"""

_OF_A_FILE = (
    "svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}" + _rules("svg") + "}"
)


def standalone(svg: Markup) -> Markup:
    """Return a chart as a file of its own, which is light or dark as its reader wants."""
    style = element("style", Markup(_OF_A_FILE))
    before, end, after = svg.partition("</desc>")
    return Markup(f"{before}{end}{style}{after}\n")


def paint(ident: str, category: Category) -> dict[str, str | float | None]:
    """Return the attributes that paint an area of *category* in the chart *ident*.

    The chart must hold ``patterns(ident, ...)`` of the category.
    """
    if category is Category.UNATTRIBUTED:
        return {"fill": "none", "stroke": "currentColor", "stroke_dasharray": "3 2"}
    if category in WASTED:
        return {"fill": f"url(#{ident}-{category})"}
    return flat(COLOURS[category])


def flat(colour: str) -> dict[str, str | float | None]:
    """Return the attributes that fill an area, lighter on a dark page where that is needed."""
    return {"fill": colour, "class_": f"ett-{colour[1:]}" if colour in _DARK else None}


def ink_on(colour: str) -> dict[str, str | float | None]:
    """Return the attributes of text on an area of *colour*: what stands out more, light or dark.

    Above that luminance dark ink has more contrast by WCAG's measure.
    """
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (channel**2.2 for channel in channels)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    ink = _DARK_SURFACE if luminance > _EVEN_LUMINANCE else SURFACE
    return {"fill": ink, "class_": f"ett-on-{colour[1:]}" if colour in _DARK else None}


def patterns(ident: str, categories: Iterable[Category]) -> Markup:
    """Define the hatches of those of *categories* that are wasted, in the chart *ident*."""
    hatched = [category for category in Category if category in WASTED & set(categories)]
    return element("defs", *(_hatch(f"{ident}-{category}", category) for category in hatched))


def _hatch(ident: str, category: Category) -> Markup:
    side = {"width": _HATCH_PX, "height": _HATCH_PX}
    return element(
        "pattern",
        element("rect", **side, **flat(COLOURS[category])),
        element("rect", width=2, height=_HATCH_PX, fill=SURFACE, class_="ett-surface", opacity=0.7),
        id=ident,
        **side,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
