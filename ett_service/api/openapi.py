"""Writes the description of the API down: ``python -m ett_service.api.openapi [FILE]``."""

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from ett_service.api.app import create_app
from ett_service.api.state import AppState


def description() -> str:
    """Return the description of the API as it is committed."""
    return json.dumps(create_app(_no_state).openapi(), indent=2, ensure_ascii=False) + "\n"


def _no_state() -> AbstractContextManager[AppState]:
    raise RuntimeError("This application is only described; it does not run.")


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/openapi.json")
    target.write_text(description(), "utf-8")
