"""``ett watch``: a small process that records what a scheduler knows of its jobs."""

import json
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from types import FrameType
from typing import NamedTuple, NoReturn

from ett_service.cli.arguments import DEFAULT_URL, seconds, server
from ett_service.cli.output import say
from ett_service.cli.record import watch_kubernetes, watch_slurm
from ett_service.cli.record.import_delivery import Delivery, Tally
from ett_service.cli.verb import Exit, Failure, NotAllowed, Verb, add_json
from ett_service.importers.importer import ImportedRun
from ett_service.watchers.watcher import Poll, Source, Unavailable, Watcher

_EVERY_S = 30.0


class Watched(NamedTuple):
    """A scheduler that can be watched."""

    summary: str
    options: Callable[[ArgumentParser], None]
    source: Callable[[Namespace], Source]


WATCHERS: Mapping[str, Watched] = {
    "kubernetes": Watched(
        "the jobs of Kubernetes, by its API", watch_kubernetes.options, watch_kubernetes.source
    ),
    "slurm": Watched("the jobs of Slurm, by sacct", watch_slurm.options, watch_slurm.source),
}


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--every",
        type=seconds,
        default=_EVERY_S,
        metavar="LENGTH",
        help="from one look to the next (default 30s)",
    )
    parser.add_argument("--once", action="store_true", help="look once, and exit with 1 if in vain")


def _watch(args: Namespace) -> Exit:
    """Watch until SIGTERM or SIGINT; what was not sent then is sent by whoever watches next."""
    report: Callable[[Poll], None] = _print if args.json else _ignore
    source = WATCHERS[args.scheduler].source(args)
    watcher = Watcher(source, _sender(args), say, args.every, report)
    if args.once:
        return Exit.DONE if watcher.try_to_poll() else Exit.FAILED
    signal.signal(signal.SIGTERM, _stop)
    watcher.run()
    return Exit.DONE


def _sender(args: Namespace) -> Callable[[Iterable[ImportedRun]], None]:
    complaints: set[str] = set()

    def send(runs: Iterable[ImportedRun]) -> None:
        tally = Tally()
        delivery = Delivery(args, tally, history=False)
        try:
            for run in runs:
                if tally.take(run):
                    delivery.take(run)
            delivery.finish()
        except NotAllowed:
            raise
        except Failure as error:
            raise Unavailable(f"{args.url or DEFAULT_URL}: {error}") from error
        for why in {*tally.refused, *tally.broken.values()} - complaints:
            complaints.add(why)
            say(f"refused: {why}")

    return send


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(Exit.DONE)


def _print(poll: Poll) -> None:
    print(json.dumps(asdict(poll)), flush=True)


def _ignore(_poll: Poll) -> None:
    pass


def _exit(answer: Exit, _args: Namespace) -> Exit:
    return answer


VERB = Verb(
    acts_dest="scheduler",
    acts={
        name: Verb(
            summary=watched.summary,
            description=f"Record {watched.summary}, until SIGTERM.",
            options=(watched.options, _options, server, add_json),
            run=_watch,
            exit_code=_exit,
        )
        for name, watched in WATCHERS.items()
    },
)
