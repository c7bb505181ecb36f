"""``ett verify``: recomputes every job from its events and prints what differs: nothing."""

import argparse
import sys
from contextlib import closing
from dataclasses import asdict, dataclass

from ett_service.aggregation.verify import Difference, RollupDifference, verify, verify_rollups
from ett_service.cli.arguments import add_json
from ett_service.cli.configured import add_config, loaded
from ett_service.cli.exits import Exit
from ett_service.cli.output import counted, write_json, write_line, write_table
from ett_service.storage.engine.store import open_for_reading


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("verify", help="recompute everything and print the differences")
    parser.add_argument(
        "--fleet", action="store_true", help="sum up the rollups, too, and compare every cell"
    )
    add_config(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Compare what is stored with what the events say; ``Exit.GATE`` if it differs anywhere.

    A server may run meanwhile. Jobs that it has yet to fold are counted, not compared.
    """
    settings = loaded(args).settings
    with closing(open_for_reading(settings.database_url)) as store:
        verdicts = list(counted(verify(store, settings.limits), "jobs verified"))
        days = list(counted(verify_rollups(store), "days verified")) if args.fleet else None
    found = _Found(
        jobs=len(verdicts),
        pending=sum(verdict.pending for verdict in verdicts),
        cells=None if days is None else sum(day.cells for day in days),
        differences=[
            *(_Row.of_job(one) for verdict in verdicts for one in verdict.differences),
            *(_Row.of_rollups(one) for day in days or () for one in day.differences),
        ],
    )
    if args.json:
        write_json(asdict(found))
    else:
        _write_table(found)
        if found.pending:
            waiting = f"{found.pending} jobs were not compared: the worker has yet to fold them\n"
            sys.stderr.write(waiting)
    return Exit.GATE if found.differences else Exit.DONE


@dataclass(frozen=True, slots=True)
class _Row:
    """A difference; ``job`` is None in the rollups, which are of all jobs."""

    project_id: int
    job: str | None
    what: str
    stored: object
    recomputed: object

    @classmethod
    def of_job(cls, one: Difference) -> "_Row":
        return cls(*one.key, one.what, one.stored, one.recomputed)

    @classmethod
    def of_rollups(cls, one: RollupDifference) -> "_Row":
        return cls(one.project_id, None, one.what, one.stored, one.recomputed)


@dataclass(frozen=True, slots=True)
class _Found:
    jobs: int
    pending: int
    cells: int | None  #: of the rollups; None where nobody asked for them
    differences: list[_Row]


def _write_table(found: _Found) -> None:
    if not found.differences:
        rollups = "" if found.cells is None else f" and {found.cells} cells of the rollups"
        write_line(f"{found.jobs} jobs{rollups}, no difference.")
        return
    write_table(
        ("project", "job", "what", "stored", "recomputed"),
        [
            (one.project_id, one.job or "-", one.what, one.stored, one.recomputed)
            for one in found.differences
        ],
    )
