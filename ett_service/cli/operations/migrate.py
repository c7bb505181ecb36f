"""``ett migrate``: brings the database to the newest schema."""

import argparse

from ett_service.cli.arguments import add_json
from ett_service.cli.configured import add_config, loaded
from ett_service.cli.exits import Exit
from ett_service.cli.output import write_json, write_line
from ett_service.logs import redact
from ett_service.storage.engine.migrate import migrate


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("migrate", help="bring the database to the newest schema")
    add_config(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Migrate, which changes nothing where the schema is the newest already."""
    url = loaded(args).settings.database_url
    migrate(url)
    if args.json:
        write_json({"database": redact(url), "schema": "newest"})
    else:
        write_line(f"{redact(url)} has the newest schema.")
    return Exit.DONE
