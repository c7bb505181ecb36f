"""Arguments that several verbs share."""

import argparse
import os

DEFAULT_URL = "http://127.0.0.1:8080"


def add_json(parser: argparse.ArgumentParser) -> None:
    """Offer ``--json``."""
    parser.add_argument("--json", action="store_true", help="write the data as JSON")


def add_server(parser: argparse.ArgumentParser) -> None:
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
