"""Writes every dashboard as JSON."""

from collections.abc import Iterable
from pathlib import Path

from dashboards.build.grafana import to_json
from dashboards.build.kit import Pack


def texts(packs: Iterable[Pack]) -> dict[Path, str]:
    """Return the text of each file of *packs*, by its path below ``dashboards/``."""
    return {
        Path(pack.folder, f"{dashboard.uid}.json"): to_json(dashboard, pack.tag)
        for pack in packs
        for dashboard in pack.dashboards
    }


def write(packs: Iterable[Pack], root: Path) -> None:
    """Write the files of *packs* below *root*, and remove those of dashboards that are no more."""
    packs = tuple(packs)
    files = {root / path: text for path, text in texts(packs).items()}
    for pack in packs:
        (root / pack.folder).mkdir(parents=True, exist_ok=True)
        for path in set((root / pack.folder).glob("*.json")) - files.keys():
            path.unlink()
    for path, text in files.items():
        path.write_text(text, "utf-8")
