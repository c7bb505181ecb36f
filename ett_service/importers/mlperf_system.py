"""Descriptions of the systems that MLPerf results come from."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ett_service.importers.importer import Report

BESIDE = "system.json"
"""The description that may lie beside a log."""

_FOLDER = "systems"
_PLACEHOLDER = re.compile("PLACEHOLDER|UNKNOWN_MLPERF", re.IGNORECASE)
_HIGHEST = 4


def description(folder: Path, report: Report) -> dict[str, Any]:
    """Read the description of the system whose logs lie in *folder*; empty where there is none.

    It lies beside them, or, as in published results, in the organisation's folder ``systems``
    under the system's name: ``ORG/systems/NAME.json`` of ``ORG/results/NAME/BENCHMARK``.
    """
    for path in (folder / BESIDE, *_of_organisation(folder)):
        if path.is_file():
            return _read(path, report)
    return {}


def filled_in(system: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what was never filled in."""
    return {
        name: value
        for name, value in system.items()
        if value not in ("", None) and not is_placeholder(str(value))
    }


def is_placeholder(text: str) -> bool:
    """Tell whether a form's own text stands where a name should."""
    return _PLACEHOLDER.search(text) is not None


def size(system: Mapping[str, Any]) -> dict[str, int]:
    """Hosts, and accelerators over all of them, as far as the system's description says."""
    hosts = _leading_int(system.get("number_of_nodes"))
    each = _leading_int(system.get("accelerators_per_node"))
    counts = {"hosts": hosts, "gpus": hosts * each}
    return {name: count for name, count in counts.items() if count}


def _of_organisation(folder: Path) -> Iterator[Path]:
    named = [path for path in (folder.absolute(), *folder.absolute().parents) if path.name]
    for system in named[:_HIGHEST]:
        for above in list(system.parents)[:2]:
            yield above / _FOLDER / f"{system.name}.json"


def _read(path: Path, report: Report) -> dict[str, Any]:
    try:
        system = json.loads(path.read_text("utf-8-sig", "replace"))
    except (OSError, ValueError, RecursionError):
        report.note(path, "not JSON, so the hardware is unknown")
        return {}
    return filled_in(system) if isinstance(system, dict) else {}


def _leading_int(value: object) -> int:
    match = re.match(r"\s*(\d{1,7})\b", str(value))
    return int(match[1]) if match else 0
