"""Where panels stand on Grafana's grid of 24 columns: in reading order, none over another."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dashboards.build.kit import Panel, Row

COLUMNS = 24
TITLE_HEIGHT = 1


class Place(NamedTuple):
    """A rectangle in units of the grid; y grows downwards."""

    x: int
    y: int
    width: int
    height: int


def places(rows: Sequence[Row]) -> Iterator[tuple[Row | Panel, Place]]:
    """Yield each row's title and its panels with their places.

    A line of panels is as high as its highest; a panel that does not fit begins the next.
    Raises ``ValueError`` for one that fits nowhere.
    """
    y = 0
    for row in rows:
        yield row, Place(0, y, COLUMNS, TITLE_HEIGHT)
        y += TITLE_HEIGHT
        x = line_height = 0
        for panel in row.panels:
            if not 0 < panel.width <= COLUMNS or panel.height <= 0:
                raise ValueError(f"{panel.title!r} has no place on {COLUMNS} columns.")
            if x + panel.width > COLUMNS:
                x, y, line_height = 0, y + line_height, 0
            yield panel, Place(x, y, panel.width, panel.height)
            x += panel.width
            line_height = max(line_height, panel.height)
        y += line_height
