"""Options of ``ett import`` that some formats have and others do not."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final, Protocol

from ett_service.cli.verb import Failure
from ett_service.core.errors import EttError
from ett_service.importers.instants import UnknownZone, machine_zone, zone
from ett_service.importers.kubernetes import cluster
from ett_service.importers.logs import profiled_log, table
from ett_service.importers.slurm import facts

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


def _name_option(
    names: Sequence[str], default: str, what: str, dest: str
) -> Callable[[ArgumentParser], None]:
    fields = " ".join(f"{{{field}}}" for field in names)

    def read(text: str) -> str:
        try:
            text.format_map(dict.fromkeys(names, ""))
        except (KeyError, ValueError, IndexError, AttributeError):
            raise ArgumentTypeError(f"{text!r} has fields other than {fields}") from None
        return text

    def offer(parser: ArgumentParser) -> None:
        parser.add_argument(
            "--name",
            dest=dest,
            type=read,
            default=default,
            metavar="TEMPLATE",
            help=f"what each job is called, of {fields} (default: {what})",
        )

    return offer


slurm_name = _name_option(
    facts.NAMES,
    facts.DEFAULT_NAME,
    "{name}, with the task of an array; trainers without ETT_JOB: slurm-{id}",
    "name",
)
kubernetes_name = _name_option(
    cluster.NAMES, cluster.DEFAULT_NAME, "{name}; ETT_JOB in its pods goes before", "template"
)


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
    "template": kubernetes_name,
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
