"""``ett config``: the settings in force, and where each came from."""

import argparse
from typing import Any

from ett_service.cli.arguments import add_json
from ett_service.cli.configured import add_config, loaded
from ett_service.cli.exits import Exit
from ett_service.cli.output import write_json, write_line, write_table
from ett_service.logs import redact


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("config", help="show or check the settings")
    acts = parser.add_subparsers(dest="act", metavar="show|check", required=True)
    for act, summary in (
        ("show", "print each setting and where it came from; passwords are blotted out"),
        ("check", "say whether the settings can be used"),
    ):
        asked = acts.add_parser(act, help=summary)
        add_config(asked)
        add_json(asked)


def run(args: argparse.Namespace) -> int:
    """Print the settings, or that they are valid."""
    found = loaded(args)
    values = found.settings.model_dump(mode="json", by_alias=True)
    rows = [
        (name, _shown(value), source)
        for (name, value), source in zip(values.items(), found.sources.values(), strict=True)
    ]
    if args.json:
        write_json({name: {"value": value, "source": source} for name, value, source in rows})
    elif args.act == "show":
        write_table(("setting", "value", "from"), rows)
    else:
        write_line("The settings are valid.")
    return Exit.DONE


def _shown(value: Any) -> Any:
    return redact(value) if isinstance(value, str) else value
