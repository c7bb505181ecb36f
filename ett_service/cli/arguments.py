"""Arguments that several verbs share, how people write them, and the API's parameters for them."""

import argparse
import math
import os
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path

from ett_service.core.dimensions import DIMENSIONS

DEFAULT_URL = "http://127.0.0.1:8080"
WHY = "reason, for the history"
ID = "id, as `list` shows it"

INSTANT = (
    "a day (2026-11-09, which stands for its first instant in UTC), an RFC 3339 instant with an "
    "offset, or how long ago: 12h, 7d, 4w"
)
_AGO = re.compile(r"-?(\d{1,6})([hdw])", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATED = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d", re.ASCII)
_AGO_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}

_DURATION = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\d+)?)([smhd])", re.ASCII)
_DURATION_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LARGEST = 10**30


def instant(text: str) -> str:
    """Read an instant, a day or how long ago into RFC 3339; the server checks the rest."""
    return _instant(text, datetime.now(UTC))


def bound(text: str) -> str:
    """Read the bound of a window of full hours as ``instant`` does, but ago from this hour's end.

    There such windows end by default, so one from ``7d`` is as long as it says.
    """
    now = datetime.now(UTC)
    return _instant(text, now + -(now - datetime.min.replace(tzinfo=UTC)) % _AGO_UNITS["h"])


def _instant(text: str, now: datetime) -> str:
    if _DAY.fullmatch(text):
        return _first_instant(text)
    ago = _AGO.fullmatch(text)
    if ago is None:
        if _DATED.match(text) is None:
            raise ArgumentTypeError(f"{text!r} is not {INSTANT}")
        return text.replace(" ", "T")
    length = int(ago[1]) * _AGO_UNITS[ago[2]]
    try:
        return (now - length).isoformat(timespec="seconds")
    except OverflowError:
        raise ArgumentTypeError(f"{text!r} is before the year 1") from None


def instant_us(text: str) -> int:
    """Read an instant as ``instant`` does into microseconds, for a verb that asks no server."""
    from ett_service.ingest.members import parse_instant  # noqa: PLC0415 -- likewise
    from ett_service.ingest.refusals import Fault  # noqa: PLC0415 -- it needs the server's packages

    try:
        return parse_instant(instant(text))
    except Fault:
        raise ArgumentTypeError(f"{text!r} is not {INSTANT}") from None


def _first_instant(day: str) -> str:
    try:
        date.fromisoformat(day)
    except ValueError:
        raise ArgumentTypeError(f"{day!r} is no day of the calendar") from None
    return f"{day}T00:00:00Z"


def seconds(text: str) -> float:
    """Read ``90s``, ``10m``, ``6h`` or ``1.5d``; of ``3`` nobody knows whether it means days."""
    parts = _DURATION.fullmatch(text)
    length = float(parts[1]) * _DURATION_UNITS[parts[2]] if parts else math.inf
    if math.isinf(length):
        raise ArgumentTypeError(f"{text!r} is not a duration, such as 90s, 10m, 6h or 1.5d")
    return length


def share(text: str) -> float:
    """Read ``0.42`` or ``42%``."""
    value = _number(text.removesuffix("%"), "a share, such as 0.42 or 42%")
    return float(value / 100 if text.endswith("%") else value)


def amount(text: str) -> float:
    """Read a number that is not negative, ``5.04e21`` among others."""
    return float(_number(text, "a number, such as 3.5 or 5.04e21"))


def whole(text: str) -> int:
    """Read a whole number from 1, ``7e9`` among others."""
    value = _number(text, "a whole number from 1, such as 64 or 7e9")
    if value != value.to_integral_value() or value < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1, such as 64 or 7e9")
    return int(value)


def wholes(text: str) -> list[int]:
    """Read whole numbers with commas between them: ``1024,16384``."""
    return [whole(part) for part in text.split(",")]


def pair(text: str) -> tuple[str, str]:
    """Read ``team:a``: a name, a colon and a value, which may be empty."""
    name, colon, value = text.partition(":")
    if not name or not colon:
        raise ArgumentTypeError(f"{text!r} is not NAME:VALUE, such as team:a")
    return name, value


def server(parser: ArgumentParser) -> None:
    """Offer ``--url`` and ``--key``; both are None where neither flag nor variable names one."""
    parser.add_argument(
        "--url",
        default=os.environ.get("ETT_URL") or None,
        help=f"address of the server (ETT_URL; default {DEFAULT_URL})",
    )
    parser.add_argument(
        "--key",
        default=os.environ.get("ETT_API_KEY") or None,
        help="API key (ETT_API_KEY, which other users of the machine cannot see)",
    )


def names_settings(args: Namespace) -> bool:
    """Return whether settings of this machine are named: by a flag, a variable or ``ett.toml``."""
    named = args.config, os.environ.get("ETT_CONFIG"), os.environ.get("ETT_DATABASE_URL")
    return any(named) or Path("ett.toml").exists()


def config(parser: ArgumentParser) -> None:
    """Offer ``--config``."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings file (ETT_CONFIG; default ett.toml where there is one)",
    )


def project(parser: ArgumentParser) -> None:
    """Offer ``--project``."""
    parser.add_argument("--project", help="project, for a key that may use several")


def window(parser: ArgumentParser) -> None:
    """Offer ``--from`` and ``--to``; the server's default is the last seven days."""
    of_window(parser, "--from", "begin", f"begin of the window: {INSTANT} (default 7d)")
    summary = "end of the window, not in it, in the same form (default: the end of this hour)"
    of_window(parser, "--to", "end", summary)


def of_window(parser: ArgumentParser, flag: str, dest: str, summary: str) -> None:
    """Offer a bound of a window of full hours."""
    parser.add_argument(flag, dest=dest, type=bound, metavar="WHEN", help=summary)


def when(parser: ArgumentParser, flag: str, dest: str, summary: str) -> None:
    """Offer an instant."""
    parser.add_argument(flag, dest=dest, type=instant, metavar="WHEN", help=summary)


def scope(parser: ArgumentParser) -> None:
    """Offer ``--where``, ``--project`` and ``--exclusions``."""
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="DIMENSION:VALUE",
        help="only this part of the fleet, such as model:llm-70b; repeat it for more values. "
        f"Dimensions: project, {', '.join(DIMENSIONS)}",
    )
    project(parser)
    parser.add_argument(
        "--exclusions",
        choices=("left_out", "included"),
        help="whether excluded time counts (default left_out)",
    )


def by(parser: ArgumentParser) -> None:
    """Offer ``--by``."""
    parser.add_argument(
        "--by", metavar="DIMENSIONS", help="group by dimensions, such as team or team,model"
    )


def output(parser: ArgumentParser) -> None:
    """Offer ``-o``."""
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: stdout")


def named(name: str, summary: str) -> Callable[[ArgumentParser], None]:
    """Offer one positional argument."""

    def declare(parser: ArgumentParser) -> None:
        parser.add_argument(name, help=summary)

    return declare


def window_query(args: Namespace) -> dict[str, object]:
    """Return the window as the API's parameters."""
    return {"from": args.begin, "to": args.end}


def scope_query(args: Namespace) -> dict[str, object]:
    """Return the scope as the API's parameters."""
    return {"where": args.where, "project": args.project, "exclusions": args.exclusions}


def _number(text: str, what: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if value.is_nan() or not 0 <= value <= _LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value
