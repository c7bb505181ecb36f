"""The page of guarantees names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "design" / "0024-guarantees.md"
NAMED = re.compile(r"`((?:tests/[\w/]+/)?test_\w+\.py)(?:::(\w+))?`")


def test_every_test_that_the_page_names_is_there() -> None:
    missing = []
    named = NAMED.findall(PAGE.read_text("utf-8"))
    for name, test in named:
        path = ROOT / (name if "/" in name else f"tests/faults/{name}")
        if not path.exists() or f"def {test}" not in path.read_text("utf-8"):
            missing.append(f"{path.relative_to(ROOT)}::{test}")
    assert len(named) > 60
    assert missing == []
