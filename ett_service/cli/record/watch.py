"""``ett watch``: a small process that records what a scheduler knows of its jobs."""

import json
import os
import signal
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from ett_service.cli.arguments import DEFAULT_URL, seconds, server
from ett_service.cli.output import say
from ett_service.cli.record.import_delivery import Delivery, Tally, told_twice
from ett_service.cli.record.import_options import kubernetes_name, slurm_name
from ett_service.cli.verb import Exit, Failure, NotAllowed, Verb, add_json
from ett_service.importers.importer import ImportedRun
from ett_service.importers.kubernetes.cluster import Cluster
from ett_service.importers.slurm.facts import Naming
from ett_service.watchers.kubernetes import Feed, Kubernetes
from ett_service.watchers.slurm import DEFAULT_SINCE_S, ControllerLog, Slurm
from ett_service.watchers.watcher import Poll, Source, Unavailable, Watcher

_EVERY_S = 30.0
_LOOK_FOR_TWICE_EVERY_S = 600.0


class Watched(NamedTuple):
    """A scheduler that can be watched."""

    summary: str
    options: Callable[[ArgumentParser], None]
    source: Callable[[Namespace], Source]


def _kubernetes_options(parser: ArgumentParser) -> None:
    """Offer what is special about Kubernetes."""
    kubernetes_name(parser)
    parser.add_argument(
        "--namespace", metavar="NAME", help="watch this namespace only (default: all)"
    )
    parser.add_argument(
        "--cluster", metavar="NAME", help="what the cluster is called in facts about its jobs"
    )
    parser.add_argument(
        "--context",
        metavar="NAME",
        help="context of your configuration (default: the pod's own account, else the current one)",
    )


def _kubernetes(args: Namespace) -> Kubernetes:
    """Return the cluster that *args* name.

    Raises:
        Failure: where the client for Kubernetes is not installed, or not configured.
    """
    try:
        from ett_service.watchers import kubernetes_api  # noqa: PLC0415 -- only this verb needs it
    except ModuleNotFoundError as error:
        if error.name != "kubernetes":
            raise
        raise Failure(
            "the client for Kubernetes is not installed",
            "pip install 'ett-service[server,kubernetes]'",
        ) from None
    try:
        api = kubernetes_api.Api(kubernetes_api.connected(args.context), args.namespace)
    except Unavailable as error:
        raise Failure(
            str(error), "Run it in a pod with an account, or where kubectl works."
        ) from None
    feed = Feed(Cluster(args.cluster, template=args.template))
    return Kubernetes(feed, kubernetes_api.streams(api, feed, say), say=say)


def _slurm_options(parser: ArgumentParser) -> None:
    """Offer what is special about Slurm."""
    slurm_name(parser)
    parser.add_argument(
        "--since",
        type=seconds,
        default=DEFAULT_SINCE_S,
        metavar="LENGTH",
        help="how far to look back for what ended while nobody watched (default 1d)",
    )
    parser.add_argument(
        "--clusters", metavar="NAMES", help="clusters, as sacct takes them (default: its own)"
    )
    parser.add_argument(
        "--controller-log",
        type=Path,
        metavar="PATH",
        help="the log of slurmctld, which alone says which job preempted another",
    )


def _slurm(args: Namespace) -> Slurm:
    """Return the accounting of Slurm, as *args* ask for it."""
    log = ControllerLog(args.controller_log)
    return Slurm(Naming(args.name), os.environ, args.since, args.clusters, log, say=say)


WATCHERS: Mapping[str, Watched] = {
    "kubernetes": Watched("the jobs of Kubernetes, by its API", _kubernetes_options, _kubernetes),
    "slurm": Watched("the jobs of Slurm, by sacct", _slurm_options, _slurm),
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
    watcher = Watcher(source, Sender(args), say, args.every, report)
    try:
        if args.once:
            return Exit.DONE if watcher.try_to_poll() else Exit.FAILED
        signal.signal(signal.SIGTERM, _stop)
        watcher.run()
    finally:
        source.stop()
    return Exit.DONE


class Sender:
    """Sends what a watcher found, and says what is wrong with it, each thing once."""

    def __init__(self, args: Namespace) -> None:
        self._args = args
        self._said: set[str] = set()
        self._launches: dict[str, str] = {}  #: the job of each since the latest look for others
        self._looked_at = -_LOOK_FOR_TWICE_EVERY_S

    def __call__(self, runs: Iterable[ImportedRun]) -> None:
        """Send them. Raises ``Unavailable``, and ``NotAllowed`` where trying again is in vain."""
        args, tally = self._args, Tally()
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
        for why in dict.fromkeys([*tally.refused, *tally.broken.values()]):
            self._say_once(f"refused: {why}")
        if args.scheduler == "slurm":
            self._look_for_twice(tally.launches)

    def _look_for_twice(self, launches: Mapping[str, str]) -> None:
        self._launches.update(launches)
        if time.monotonic() - self._looked_at >= _LOOK_FOR_TWICE_EVERY_S:
            self._looked_at = time.monotonic()
            self._say_once(told_twice(self._args, self._launches))
            self._launches.clear()

    def _say_once(self, what: str) -> None:
        if what and what not in self._said:
            self._said.add(what)
            say(what)


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
