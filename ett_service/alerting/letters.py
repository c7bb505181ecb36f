"""Text that people chose, made safe to show and cut to a length.

A text is cut before it is escaped, so no cut falls into an escape.
"""

from collections.abc import Callable

ELLIPSIS = "…"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def shown(text: str, most: int) -> str:
    """Return *text* on one line, of at most *most* characters.

    What cannot be seen is made visible: control characters, those that turn the direction of
    writing, and halves of surrogate pairs would otherwise show another name than there is.
    """
    return cut("".join(map(_seen, text)), most)


def exact(text: str, most: int) -> str:
    """Return *text* as a program compares it: only what UTF-8 cannot carry is replaced."""
    return cut(text.encode("utf-8", "replace").decode(), most)


def cut(text: str, most: int) -> str:
    """Return *text*, or its beginning and an ellipsis, in at most *most* characters."""
    return text if len(text) <= most else text[: most - 1] + ELLIPSIS


def fitted(text: str, most: int, escape: Callable[[str], str]) -> str:
    """Escape *text* character by character, in at most *most* characters of what comes out."""
    pieces = [escape(character) for character in text]
    if sum(map(len, pieces)) <= most:
        return "".join(pieces)
    room = most - len(ELLIPSIS)
    kept: list[str] = []
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            break
        kept.append(piece)
    return "".join(kept) + ELLIPSIS


def _seen(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else _REPLACEMENT
