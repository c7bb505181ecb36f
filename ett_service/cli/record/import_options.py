"""Options of ``ett import`` that some formats have and others do not."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from datetime import tzinfo

from ett_service.importers.instants import UnknownZone, zone


def _zone(name: str) -> tzinfo:
    try:
        return zone(name)
    except UnknownZone as error:
        raise ArgumentTypeError(f"{error}; names are such as Europe/Paris") from None


def _timezone(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--timezone",
        dest="zone",
        type=_zone,
        metavar="NAME",
        help="zone of times that name none, such as Europe/Paris (default: UTC, with a note)",
    )


OPTIONS: Mapping[str, Callable[[ArgumentParser], None]] = {
    "zone": _timezone,
}
"""How each is offered, by the name under which the function of a format takes it."""
