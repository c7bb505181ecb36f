"""``ett serve`` and ``ett worker``: the processes of the service."""

import signal
import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing

from ett_service.app import serve, worker
from ett_service.cli.arguments import config
from ett_service.cli.operations.local import loaded
from ett_service.cli.verb import Verb, now_us
from ett_service.logs import configure
from ett_service.storage.engine.store import open_store

_STOP = {signal.SIGINT, signal.SIGTERM}


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (ETT_HOST)")
    parser.add_argument("--port", help="port to listen on, 0 for a free one (ETT_PORT)")


def _serve(args: Namespace) -> None:
    """Serve until SIGINT or SIGTERM."""
    settings = loaded(args, {"ETT_HOST": args.host, "ETT_PORT": args.port}).settings
    configure(settings.log_level, settings.log_format)
    serve(settings, now_us)


def _work(args: Namespace) -> None:
    """Work until SIGINT or SIGTERM, and finish the jobs in hand."""
    settings = loaded(args).settings
    configure(settings.log_level, settings.log_format)
    with closing(open_store(settings.database_url)) as store:
        running = worker(settings, store, now_us)
        # Blocked before the threads begin, which inherit it: the signals come to sigwait alone.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
        running.start()
        sys.stderr.write("The worker is running; Ctrl-C stops it.\n")
        signal.sigwait(_STOP)
        running.stop()


SERVE = Verb(options=(_options, config), run=_serve)
WORKER = Verb(options=(config,), run=_work)
