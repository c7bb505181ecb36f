"""``ett serve``: the API, with a worker in the same process unless the settings say otherwise."""

import argparse

from ett_service.api.serve import serve
from ett_service.cli.configured import add_config, loaded
from ett_service.cli.exits import Exit
from ett_service.cli.working import worker
from ett_service.logs import configure


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("serve", help="serve the API")
    parser.add_argument("--host", help="address to listen on (ETT_HOST)")
    parser.add_argument("--port", help="port to listen on, 0 for a free one (ETT_PORT)")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    settings = loaded(args, {"ETT_HOST": args.host, "ETT_PORT": args.port}).settings
    configure(settings.log_level, settings.log_format)
    serve(settings, worker)
    return Exit.DONE
