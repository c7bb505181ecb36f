"""Options of ``ett import`` that some formats have and others do not."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final, Protocol

from ett_service.cli.verb import Failure
from ett_service.core.errors import EttError
from ett_service.importers.instants import UnknownZone, machine_zone, zone
from ett_service.importers.logs import profiled_log, table
from ett_service.importers.slurm.facts import DEFAULT_NAME, NAMES

_LOCAL = "local"


def _zone(name: str) -> tzinfo:
    try:
        return machine_zone() if name == _LOCAL else zone(name)
    except UnknownZone as error:
        raise ArgumentTypeError(f"{error}; names are such as Europe/Paris") from None


def _timezone(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--timezone",
        dest="zone",
        type=_zone,
        metavar="NAME",
        help=f"zone of times that name none, such as Europe/Paris; {_LOCAL}: of this machine "
        f"(default: {_LOCAL} for sacct, else UTC with a note)",
    )


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


class Checked(Protocol):
    """A profile or mapping, which holds its own test."""

    def failures(self) -> Iterator[str]:
        """Yield why each part of the test fails."""
        ...


def _file_option(
    flag: str, kind: Callable[[Path], Checked], what: str
) -> Callable[[ArgumentParser], None]:
    def read(text: str) -> Checked:
        try:
            return kind(Path(text))
        except EttError as error:
            raise ArgumentTypeError(str(error)) from None

    def offer(parser: ArgumentParser) -> None:
        parser.add_argument(flag, type=read, metavar="FILE", help=what)

    return offer


OPTIONS: Mapping[str, Callable[[ArgumentParser], None]] = {
    "mapping": _file_option("--mapping", table.Mapping, "YAML of columns and events"),
    "name": slurm_name,
    "profile": _file_option("--profile", profiled_log.Profile, "YAML of named patterns"),
    "zone": _timezone,
}
"""How each is offered, by the name under which the function of a format takes it."""

CHECKED: Final = ("mapping", "profile")
"""Those that hold their own test; a format that takes one needs it."""


def keywords_of(options: Iterable[str], args: Namespace) -> dict[str, Any]:
    """Return what the function of a format takes beyond paths and job.

    Raises:
        Failure: where a profile or mapping is missing.
    """
    keywords = {name: getattr(args, name) for name in options}
    for name in CHECKED:
        if name in keywords and keywords[name] is None:
            raise Failure(f"no {name} is given", f"Name its file with --{name}.")
    return keywords
