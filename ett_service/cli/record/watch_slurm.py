"""What ``ett watch slurm`` watches."""

import os
from argparse import ArgumentParser, Namespace

from ett_service.cli.arguments import seconds
from ett_service.cli.output import say
from ett_service.cli.record.import_options import slurm_name
from ett_service.importers.slurm.facts import Naming
from ett_service.watchers.slurm import DEFAULT_SINCE_S, Slurm


def options(parser: ArgumentParser) -> None:
    """Offer what is special about Slurm."""
    slurm_name(parser)
    parser.add_argument(
        "--since",
        type=seconds,
        default=DEFAULT_SINCE_S,
        metavar="LENGTH",
        help="how far to look back for what ended while nobody watched (default 1d)",
    )
    parser.add_argument(
        "--clusters", metavar="NAMES", help="clusters, as sacct takes them (default: its own)"
    )


def source(args: Namespace) -> Slurm:
    """Return the accounting of Slurm, as *args* ask for it."""
    return Slurm(Naming(args.name), os.environ, args.since, args.clusters, say=say)
