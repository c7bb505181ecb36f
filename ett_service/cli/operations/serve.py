"""``ett serve`` and ``ett worker``: the processes of the service."""

import logging
import signal
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ett_service.app import serve, worker
from ett_service.cli.arguments import config, whole
from ett_service.cli.operations.config import loaded
from ett_service.cli.verb import Exit, Failure, Verb, now_us
from ett_service.core.errors import EttError
from ett_service.logs import catch_all, configure
from ett_service.settings import Settings
from ett_service.storage.engine.store import open_store
from ett_service.worker.ledgers import Worker

log = logging.getLogger(__name__)

_STOP = {signal.SIGINT, signal.SIGTERM}

_LOOK_S, _FRESH_S = 10.0, 60.0

_LONGEST_STEP_S = 600.0
"""A step that takes longer hangs. One that fails, as without a database, is over at once."""


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (ETT_HOST)")
    parser.add_argument("--port", help="port to listen on, 0 for a free one (ETT_PORT)")
    parser.add_argument(
        "--workers",
        type=whole,
        default=1,
        metavar="N",
        help="number of processes that serve, on PostgreSQL (default: 1)",
    )
    parser.add_argument(
        "--first-key",
        type=Path,
        metavar="FILE",
        help="write the first key of a new SQLite file there, not to standard output",
    )


def _serve(args: Namespace) -> None:
    """Serve until SIGINT or SIGTERM."""
    settings = loaded(args, {"ETT_HOST": args.host, "ETT_PORT": args.port}).settings
    with _logging(settings):
        serve(settings, now_us, args.first_key, args.workers)


def _worker_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--alive", type=Path, metavar="FILE", help="touch FILE every 10 s while all threads work"
    )
    parser.add_argument(
        "--check", action="store_true", help="only check whether FILE was touched in the last 60 s"
    )


def _work(args: Namespace) -> None:
    """Work until SIGINT or SIGTERM, and finish the jobs in hand."""
    if args.check:
        _check(args.alive)
        return
    settings = loaded(args).settings
    with _logging(settings), closing(open_store(settings.database_url)) as store:
        running = worker(settings, store, now_us)
        # Blocked before the threads begin, which inherit it: the signals come to sigwait alone.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
        running.start()
        log.info("The worker is running; Ctrl-C stops it.", extra={"event": "working"})
        _wait(running, args.alive)
        running.stop()


def _wait(running: Worker, file: Path | None) -> None:
    """Wait for the signal to stop."""
    if file is None:
        signal.sigwait(_STOP)
        return
    file.touch()
    while signal.sigtimedwait(_STOP, _LOOK_S) is None:
        if running.works(_LONGEST_STEP_S):
            file.touch()


def _check(file: Path | None) -> None:
    if file is None:
        raise Failure("--check needs --alive FILE")
    try:
        age_s = time.time() - file.stat().st_mtime
    except FileNotFoundError:
        raise Failure(f"{file} is not there: no worker has touched it") from None
    if age_s > _FRESH_S:
        raise Failure(f"the worker stands still: it touched {file} {age_s:.0f} s ago")


@contextmanager
def _logging(settings: Settings) -> Iterator[None]:
    """Have all that the process says in its log, in whose format why it does not start, too."""
    configure(settings.log_level, settings.log_format)
    catch_all()
    try:
        yield
    except (EttError, OSError) as error:
        if settings.log_format != "json":
            raise
        hint = getattr(error, "hint", "")
        log.critical("%s", error, extra={"event": "failed", "hint": hint})
        raise SystemExit(Exit.FAILED) from error


SERVE = Verb(options=(_options, config), run=_serve)
WORKER = Verb(options=(_worker_options, config), run=_work)
