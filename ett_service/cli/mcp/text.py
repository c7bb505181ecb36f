"""Text from events, as data: printable, and no longer than it is of use."""

from typing import Any

MOST_CHARACTERS = 200
MOST_ROWS = 20
MOST_MEMBERS = 50


def bounded(value: Any) -> Any:
    """Return JSON with every text and name printable and cut, and every list and object short.

    Job names, labels and messages are written by whoever may send events.
    """
    match value:
        case str():
            return _printable(value)
        case list():
            return [bounded(item) for item in value[:MOST_ROWS]]
        case dict():
            members = list(value.items())[:MOST_MEMBERS]
            return {_printable(str(name)): bounded(item) for name, item in members}
        case _:
            return value


def _printable(text: str) -> str:
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return shown if len(shown) <= MOST_CHARACTERS else shown[: MOST_CHARACTERS - 1] + "…"
