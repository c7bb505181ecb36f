"""Arguments that say which time and which part of the fleet a verb is about."""

import argparse
import re
from datetime import UTC, datetime, timedelta

_AGO = re.compile(r"-?(\d{1,6})([hdw])", re.ASCII)
_DATED = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d", re.ASCII)
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_INSTANT = "an RFC 3339 instant with an offset, or how long ago: 12h, 7d, 4w"


def instant(text: str) -> str:
    """Read an instant, or how long ago it was, into RFC 3339; the server checks the rest."""
    ago = _AGO.fullmatch(text)
    if ago is None:
        if _DATED.match(text) is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not {_INSTANT}")
        return text
    length = int(ago[1]) * _UNITS[ago[2]]
    try:
        return (datetime.now(UTC) - length).isoformat(timespec="seconds")
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is before the year 1") from None


def add_window(parser: argparse.ArgumentParser) -> None:
    """Offer ``--from`` and ``--to``; the server's default is the last seven days."""
    parser.add_argument(
        "--from", dest="begin", type=instant, metavar="WHEN", help=f"{_INSTANT} (default 7d)"
    )
    parser.add_argument(
        "--to", dest="end", type=instant, metavar="WHEN", help="likewise (default: now)"
    )


def add_scope(parser: argparse.ArgumentParser) -> None:
    """Offer ``--where``, ``--project`` and ``--exclusions``."""
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="DIMENSION:VALUE",
        help="only this part of the fleet, as model:llm-70b; of several values of a dimension any",
    )
    parser.add_argument("--project", help="one project, for a key that may read several")
    parser.add_argument(
        "--exclusions",
        choices=("left_out", "included"),
        help="whether excluded time counts (default left_out)",
    )


def add_by(parser: argparse.ArgumentParser) -> None:
    """Offer ``--by``."""
    parser.add_argument(
        "--by", metavar="DIMENSIONS", help="a row for each, as team or team,model; see `where`"
    )


def scope(args: argparse.Namespace) -> dict[str, object]:
    """Return what was asked for as the API's parameters."""
    return {"where": args.where, "project": args.project, "exclusions": args.exclusions}


def window(args: argparse.Namespace) -> dict[str, object]:
    """Return the window that was asked for as the API's parameters."""
    return {"from": args.begin, "to": args.end}
