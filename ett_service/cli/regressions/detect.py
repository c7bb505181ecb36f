"""``ett detect``: what the search for regressions would have found on any day, replayed offline."""

import argparse
from collections.abc import Sequence
from contextlib import closing

from sqlalchemy import Connection

from ett_service.cli.arguments import add_json
from ett_service.cli.configured import add_config, loaded
from ett_service.cli.detection_plan import plan_of
from ett_service.cli.exits import Exit, Failure
from ett_service.cli.now import now_us
from ett_service.cli.output import write_json
from ett_service.cli.regressions.detect_answer import Told, told
from ett_service.cli.regressions.detect_tables import write
from ett_service.cli.window import instant
from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.regressions.state import StateRules
from ett_service.detection.backtest import retrace
from ett_service.detection.completed import open_phases
from ett_service.detection.options import Plan
from ett_service.ingest.refusals import Fault
from ett_service.ingest.text import parse_instant
from ett_service.settings import Settings
from ett_service.storage.engine.store import open_for_reading
from ett_service.storage.jobs.listing import projects

MOST_RUNS = 400
"""So many days are replayed at most."""

_WHEN = "a day (2026-03-01), an RFC 3339 instant with an offset, or how long ago: 12h, 7d, 4w"
_DAY_LENGTH = len("2026-03-01")


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "detect",
        help="replay the search for regressions as of any day",
        description="Runs the detector over the database that the settings name, as it would have "
        "run then; it writes nothing, and a server may run meanwhile.",
        epilog="Examples: `ett detect --at 2026-11-19`, `ett detect --from 30d --power`. "
        "docs/howto/replay-detection.md tells more.",
    )
    parser.add_argument(
        "--at",
        type=_at_us,
        metavar="WHEN",
        help=f"{_WHEN}; what was over by then is looked at (default: the last run that was due)",
    )
    parser.add_argument(
        "--from",
        dest="begin",
        type=_at_us,
        metavar="WHEN",
        help="run once a day from then on, each run knowing what the last one found",
    )
    parser.add_argument("--project", help="one project (default: each of them)")
    parser.add_argument(
        "--power", action="store_true", help="list how small a change could have been seen"
    )
    add_config(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what would have been pending, firing and resolved.

    Raises:
        Failure: where there is no such project, or too many days.
    """
    settings = loaded(args).settings
    runs_at = _runs(args, settings)
    plan, rules = plan_of(settings), StateRules(runs=settings.detection.runs)
    with closing(open_for_reading(settings.database_url)) as store, store.reading() as conn:
        named = projects(conn)
        if args.project is not None and args.project not in named:
            raise Failure(
                f"There is no project {args.project!r}.", f"There are: {', '.join(named)}."
            )
        wanted = [args.project] if args.project is not None else list(named)
        answers = [_replayed(conn, name, named[name], runs_at, plan, rules) for name in wanted]
    if args.json:
        write_json({"projects": answers})
    else:
        for answer in answers:
            write(answer, power=args.power)
    return Exit.DONE


def _at_us(text: str) -> int:
    try:
        return parse_instant(instant(f"{text}T00:00:00Z" if len(text) == _DAY_LENGTH else text))
    except (Fault, argparse.ArgumentTypeError):
        raise argparse.ArgumentTypeError(f"{text!r} is not {_WHEN}") from None


def _runs(args: argparse.Namespace, settings: Settings) -> list[int]:
    """Return the instants of the runs in ascending order, one a day up to the last."""
    every_us = round(settings.detection.every_seconds * SECOND_US)
    last_us = args.at if args.at is not None else now_us() // every_us * every_us
    first_us = last_us if args.begin is None else args.begin
    count = (last_us - first_us) // DAY_US + 1
    if not 1 <= count <= MOST_RUNS:
        raise Failure(
            f"From --from to --at there are {max(count, 0)} runs.",
            f"--from lies before --at, by {MOST_RUNS} days at most.",
        )
    return [last_us - day * DAY_US for day in reversed(range(count))]


def _replayed(
    conn: Connection,
    name: str,
    project_id: int,
    runs_at: Sequence[int],
    plan: Plan,
    rules: StateRules,
) -> Told:
    found, observed = retrace(conn, project_id, runs_at, plan, rules)
    hanging = open_phases(conn, project_id, observed, runs_at[-1])
    return told(name, runs_at, found, hanging)
