"""Draws each dashboard into ``docs/pictures``: ``python -m dashboards.pictures [UID ...]``.

It lets the demo's fleet happen, which takes some minutes.
"""

import sys
from pathlib import Path

from dashboards.build import PACKS
from dashboards.pictures.page import draw, write
from dashboards.pictures.scene import scene

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


def main(uids: list[str]) -> None:
    """Draw the dashboards named, or all."""
    chosen = [each for pack in PACKS for each in pack.dashboards if not uids or each.uid in uids]
    PICTURES.mkdir(exist_ok=True)
    with scene() as looked_at:
        for dashboard in chosen:
            write(draw(dashboard, looked_at.look_at(dashboard)), PICTURES / f"{dashboard.uid}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
