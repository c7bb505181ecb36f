"""``ett mcp``: the service's answers for assistants, over the Model Context Protocol.

It asks the API of a server with a key that may read, and writes nothing.
"""

import importlib
import sys
from argparse import ArgumentParser, Namespace

from ett_service.cli.arguments import project, server
from ett_service.cli.verb import Failure, Verb

_LOOPBACK = "127.0.0.1"


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        type=int,
        metavar="PORT",
        help=f"serve streamable HTTP at http://{_LOOPBACK}:PORT/mcp instead of stdio",
    )


def _run(args: Namespace) -> None:
    try:
        tools = importlib.import_module("ett_service.cli.mcp.tools")
    except ModuleNotFoundError as error:
        raise Failure(
            f"`ett mcp` needs the MCP SDK ({error.name} is missing)",
            "Install it: pip install 'ett-service[mcp]'",
        ) from None
    served = tools.mcp_server(args)
    if args.http is None:
        served.run("stdio")
        return
    sys.stderr.write(f"Serving MCP at http://{_LOOPBACK}:{args.http}/mcp; Ctrl-C stops it.\n")
    sys.stderr.flush()
    served.run("streamable-http", host=_LOOPBACK, port=args.http, stateless_http=True)


VERB = Verb(
    description="Answer an assistant's questions over the Model Context Protocol, reading only.",
    epilog="It serves stdio, as assistants start it. See docs/howto/ask-with-mcp.md.",
    options=(_options, project, server),
    run=_run,
)
