"""Prints every frame of a fleet, from the server and from the database, as JSON."""

import inspect
import json
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

import ett_service
from ett_service import frames

DAYS = {"begin": "2026-03-06T00:00:00Z", "end": "2026-03-09T00:00:00Z"}


def main() -> None:
    """Print what is public, and what each call returns from both sources."""
    sources = {
        "http": frames.connect(os.environ["ETT_URL"], os.environ["ETT_API_KEY"], "research"),
        "sql": frames.connect(f"sqlite:///{Path('ett.db').absolute()}", project="research"),
    }
    answers = {name: dict(_frames(source)) for name, source in sources.items()}
    public = {
        module.__name__: {name: _parameters(getattr(module, name)) for name in module.__all__}
        for module in (ett_service, frames)
    }
    json.dump({"public": public, "frames": answers}, sys.stdout)


def _frames(source: frames.Source) -> Iterator[tuple[str, Any]]:
    yield "jobs", _described(source.jobs(team="golden"))
    for name in ("attempts", "ledger", "segments"):
        yield name, _described(getattr(source, name)("live-failed"))
    yield "rollups", _described(source.rollups(step="1d", group_by=["cluster"], **DAYS))
    yield "summary", _described(source.summary(group_by=["model"], where=["cluster:fir"], **DAYS))
    yield "markers", _described(source.markers())
    yield "regressions", _described(source.regressions())


def _described(frame: pd.DataFrame) -> dict[str, Any]:
    columns = {str(name): str(kind) for name, kind in frame.dtypes.items()}
    rows = [map(_plain, row) for row in frame.itertuples(index=False)]
    return {"columns": columns, "rows": [dict(zip(columns, row, strict=True)) for row in rows]}


def _plain(value: Any) -> Any:
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, datetime):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else value


def _parameters(public: object) -> list[str] | None:
    if not callable(public):
        return None
    return [
        str(parameter.replace(annotation=inspect.Parameter.empty))
        for parameter in inspect.signature(public).parameters.values()
        if not parameter.name.startswith("_")
    ]


if __name__ == "__main__":
    main()
