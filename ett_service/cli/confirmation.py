"""Asks before what cannot be undone; a script says ``--yes``.

This module imports the standard library alone, as ``verb`` does.
"""

import sys
from argparse import ArgumentParser, Namespace

from ett_service.cli.output import shown
from ett_service.cli.verb import Failure

_AGREED = frozenset({"y", "yes"})


class Unconfirmed(Failure):
    """Nobody agreed to what cannot be undone."""

    hint = "--yes does it without a question."


def yes(parser: ArgumentParser) -> None:
    """Offer ``--yes``."""
    parser.add_argument("--yes", action="store_true", help="do it without a question")


def require(args: Namespace, what: str) -> None:
    """Go on only if ``--yes`` was said, or if who sits at the terminal agrees to *what*.

    Raises:
        Unconfirmed: Neither, or there is no terminal to ask at.
    """
    if args.yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Unconfirmed(f"nothing was done, as nobody confirmed this: {what}")
    print(
        f"{shown(what[:1].upper() + what[1:])}. Go on? [y/N] ", end="", file=sys.stderr, flush=True
    )
    if sys.stdin.readline().strip().lower() not in _AGREED:
        raise Unconfirmed("nothing was done")
