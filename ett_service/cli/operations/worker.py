"""``ett worker``: computes ledgers beside the servers of one PostgreSQL database."""

import argparse
import signal
import sys
from contextlib import closing

from ett_service.cli.configured import add_config, loaded
from ett_service.cli.exits import Exit
from ett_service.cli.working import worker
from ett_service.logs import configure
from ett_service.storage.engine.store import open_store

_STOP = {signal.SIGINT, signal.SIGTERM}


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("worker", help="compute ledgers beside a server")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Work until SIGINT or SIGTERM, and finish the jobs in hand."""
    settings = loaded(args).settings
    configure(settings.log_level, settings.log_format)
    with closing(open_store(settings.database_url)) as store:
        working = worker(settings, store)
        # Blocked before the threads begin, which inherit it: the signals come to sigwait alone.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
        working.start()
        sys.stderr.write("Working; stop with Ctrl-C.\n")
        signal.sigwait(_STOP)
        working.stop()
    return Exit.DONE
