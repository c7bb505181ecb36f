"""``ett verify``: recomputes every job from its events and prints what differs: nothing."""

import argparse
import sys
from contextlib import closing

from ett_service.aggregation.verify import Difference, Verdict, verify
from ett_service.cli.arguments import add_json
from ett_service.cli.configured import add_config, loaded
from ett_service.cli.exits import Exit
from ett_service.cli.output import counted, write_json, write_line, write_table
from ett_service.storage.engine import open_for_reading


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("verify", help="recompute everything and print the differences")
    add_config(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Compare what is stored with what the events say; ``Exit.GATE`` if it differs anywhere.

    A server may run meanwhile. Jobs that it has yet to fold are counted, not compared.
    """
    settings = loaded(args).settings
    with closing(open_for_reading(settings.database_url)) as store:
        verdicts = list(counted(verify(store, settings.limits), "jobs verified"))
    differences = [found for verdict in verdicts for found in verdict.differences]
    pending = sum(verdict.pending for verdict in verdicts)
    if args.json:
        _write_json(verdicts, differences, pending)
    else:
        _write_table(verdicts, differences)
        if pending:
            sys.stderr.write(f"{pending} jobs were not compared: the worker has yet to fold them\n")
    return Exit.GATE if differences else Exit.DONE


def _write_json(verdicts: list[Verdict], differences: list[Difference], pending: int) -> None:
    write_json(
        {
            "jobs": len(verdicts),
            "pending": pending,
            "differences": [
                {
                    "project_id": found.key.project_id,
                    "job": found.key.job,
                    "what": found.what,
                    "stored": found.stored,
                    "recomputed": found.recomputed,
                }
                for found in differences
            ],
        }
    )


def _write_table(verdicts: list[Verdict], differences: list[Difference]) -> None:
    if not differences:
        write_line(f"{len(verdicts)} jobs, no difference.")
        return
    write_table(
        ("project", "job", "what", "stored", "recomputed"),
        [
            (found.key.project_id, found.key.job, found.what, found.stored, found.recomputed)
            for found in differences
        ],
    )
