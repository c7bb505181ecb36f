"""The page of guarantees names tests that exist, and `make faults` runs them all.

As a program it prints those that lie in other folders.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "design" / "0024-guarantees.md"
NAMED = re.compile(r"`((?:tests/[\w/]+/)?test_\w+\.py)(?:::(\w+))?`")


VERBS = ROOT / "Makefile"


def elsewhere() -> list[str]:
    """Return the modules of other folders that the page names."""
    return sorted({name for name, _ in NAMED.findall(PAGE.read_text("utf-8")) if "/" in name})


def test_make_faults_runs_short_and_long_forms_of_all_that_the_page_names() -> None:
    (recipe,) = re.findall(r"^faults:.*\n((?:\t.*\n)+)", VERBS.read_text("utf-8"), re.MULTILINE)

    assert "tests/faults " in recipe
    assert "python -m tests.faults.test_documented" in recipe
    assert "--long " in recipe
    assert " -m long" not in recipe
    assert {Path(name).parts[1] for name in elsewhere()} >= {
        "aggregation",
        "api",
        "core",
        "storage",
    }


def test_every_test_that_the_page_names_is_there() -> None:
    missing = []
    named = NAMED.findall(PAGE.read_text("utf-8"))
    for name, test in named:
        path = ROOT / (name if "/" in name else f"tests/faults/{name}")
        if not path.exists() or f"def {test}" not in path.read_text("utf-8"):
            missing.append(f"{path.relative_to(ROOT)}::{test}")
    assert len(named) > 60
    assert missing == []


if __name__ == "__main__":
    sys.stdout.write(" ".join(elsewhere()) + "\n")
