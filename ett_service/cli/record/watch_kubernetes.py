"""What ``ett watch kubernetes`` watches."""

from argparse import ArgumentParser, Namespace

from ett_service.cli.output import say
from ett_service.cli.verb import Failure
from ett_service.importers.kubernetes.cluster import Cluster
from ett_service.watchers.kubernetes import Feed, Kubernetes
from ett_service.watchers.watcher import Unavailable


def options(parser: ArgumentParser) -> None:
    """Offer what is special about Kubernetes."""
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


def source(args: Namespace) -> Kubernetes:
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
    feed = Feed(Cluster(args.cluster))
    return Kubernetes(feed, kubernetes_api.streams(api, feed, say), say=say)
