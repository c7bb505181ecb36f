"""Options of ``ett import`` that some formats have and others do not."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from datetime import tzinfo

from ett_service.importers.instants import UnknownZone, machine_zone, zone
from ett_service.importers.slurm.facts import DEFAULT_NAME, NAMES

_LOCAL = "local"


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


def _slurm_timezone(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--timezone",
        dest="slurm_zone",
        type=_zone_or_local,
        default=_LOCAL,
        metavar="NAME",
        help=f"zone of the times, such as Europe/Paris (default {_LOCAL}: that of this machine)",
    )


def _zone_or_local(name: str) -> tzinfo:
    return machine_zone() if name == _LOCAL else _zone(name)


def slurm_name(parser: ArgumentParser) -> None:
    """Offer ``--name``."""
    parser.add_argument(
        "--name",
        type=_template,
        default=DEFAULT_NAME,
        metavar="TEMPLATE",
        help="what each job is called, of "
        + " ".join(f"{{{field}}}" for field in NAMES)
        + " (default: {name}, with the task of an array; trainers without ETT_JOB: slurm-{id})",
    )


def _template(text: str) -> str:
    try:
        text.format_map(dict.fromkeys(NAMES, ""))
    except (KeyError, ValueError, IndexError, AttributeError):
        fields = " ".join(f"{{{field}}}" for field in NAMES)
        raise ArgumentTypeError(f"{text!r} has fields other than {fields}") from None
    return text


OPTIONS: Mapping[str, Callable[[ArgumentParser], None]] = {
    "name": slurm_name,
    "slurm_zone": _slurm_timezone,
    "zone": _timezone,
}
"""How each is offered, by the name under which the function of a format takes it."""
