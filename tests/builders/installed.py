"""The package as an installer leaves it: with the metadata that makes its entry points found."""

import tomllib
from pathlib import Path

from tests.builders.trainers import REPOSITORY


def python_path(folder: Path) -> str:
    """Write the entry points of the project under *folder*; return a PYTHONPATH that has them."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    metadata = folder / f"ett_service-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: ett-service\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return f"{folder}:{REPOSITORY}"
