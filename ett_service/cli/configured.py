"""The settings, as a verb's arguments and the environment give them."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from ett_service.settings import Loaded, load


def add_config(parser: argparse.ArgumentParser) -> None:
    """Offer ``--config``."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings file (ETT_CONFIG; default ett.toml where there is one)",
    )


def loaded(args: argparse.Namespace, overrides: Mapping[str, object] | None = None) -> Loaded:
    """Read the settings; *overrides* that are not None win, by the name of their variable.

    Raises:
        BadSettings: naming what is wrong.
    """
    given = {name: str(value) for name, value in (overrides or {}).items() if value is not None}
    return load(os.environ | given, args.config)
