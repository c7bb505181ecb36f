"""The recorded files: of each surface one with data, and one with its wording where it has any.

``make golden`` writes the wording anew and shows what else differs; ``make golden DATA=1`` writes
all of it.
"""

import argparse
import sys
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden.record import record
from tests.golden.steady import written

FOLDER = Path(__file__).with_name("recorded")
DATA, TEXT = ".data.json", ".text"

_SHOWN_LINES = 60


def contents(folder: Path) -> dict[str, str]:
    """Make the fleet in *folder*, and return what every file is to hold, by its name."""
    files = {}
    for name, surface in record(folder).items():
        files[name + DATA] = written(surface.data) + "\n"
        if surface.text:
            files[name + TEXT] = surface.text.rstrip("\n") + "\n"
    return files


def recorded() -> dict[str, str]:
    """Read the files as they were recorded."""
    return {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()}


def difference(name: str, before: str, now: str) -> str:
    """Return how a file differs, in lines; nothing where it does not."""
    lines = unified_diff(before.splitlines(), now.splitlines(), f"recorded {name}", "now", n=2)
    first = [line.rstrip("\n") for line in lines]
    more = len(first) - _SHOWN_LINES
    return "\n".join([*first[:_SHOWN_LINES], *([f"... {more} more lines"] if more > 0 else [])])


def main() -> int:
    """Write what may be written; return how many files of data differ and were not."""
    parser = argparse.ArgumentParser(description="Write the golden files anew.")
    parser.add_argument("--data", action="store_true", help="the data, too: it was meant to change")
    args = parser.parse_args()
    before = recorded() if FOLDER.exists() else {}
    with TemporaryDirectory() as folder:
        now = contents(Path(folder))
    FOLDER.mkdir(exist_ok=True)
    refused = 0
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) == now.get(name):
            continue
        if name.endswith(DATA) and not args.data:
            _say(difference(name, before.get(name, ""), now.get(name, "")))
            refused += 1
        else:
            _replace(name, now.get(name))
    if refused:
        _say(f"{refused} files of data differ. Were they meant to? make golden DATA=1")
    return min(refused, 1)


def _replace(name: str, content: str | None) -> None:
    _say(f"{name} is written anew" if content is not None else f"{name} is gone")
    if content is None:
        (FOLDER / name).unlink()
    else:
        (FOLDER / name).write_text(content, "utf-8")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
