"""``ett markers``: deploys, launches and maintenance windows, beside which numbers are read."""

from argparse import ArgumentParser, Namespace
from typing import Any

from ett_service.cli import confirmation
from ett_service.cli.arguments import ID, INSTANT, named, pair, project, server, when
from ett_service.cli.output import conditions, minute, or_dash, write_line
from ett_service.cli.remote import ask, listed, of_project, place
from ett_service.cli.tables import identifier, spare, text, write_rows
from ett_service.cli.verb import Verb, act, now_us
from ett_service.core.events import MarkerKind
from ett_service.core.intervals import rfc3339

_KINDS = tuple(kind.value for kind in MarkerKind)
_SHARED = (project, server)
_FILTERS = ("from", "to", "kind", "q", "label")

_COLUMNS = (
    identifier("id"),
    text("at (UTC)", "at", minute),
    text("kind"),
    text("title"),
    spare(text("labels", "labels", lambda labels: or_dash(conditions(labels)))),
    spare(text("end (UTC)", "end", minute)),
)


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("title", help="what was done, in a few words")
    parser.add_argument("--kind", choices=_KINDS, required=True)
    when(parser, "--at", "at", f"begin: {INSTANT} (default: now)")
    when(parser, "--end", "end", "end, of what took time")
    parser.add_argument(
        "--label", action="append", type=pair, default=[], metavar="NAME:VALUE", dest="labels"
    )
    parser.add_argument("--id", help="an id of your own; adding it again changes nothing")


def _add(args: Namespace) -> Any:
    body = {
        "at": args.at or rfc3339(now_us()),
        "end": args.end,
        "kind": args.kind,
        "title": args.title,
        "labels": dict(args.labels),
        "id": args.id,
    }
    return ask(args, "/v1/markers", of_project(args), method="POST", body=body)


def _write_added(marker: Any, _args: Namespace) -> None:
    write_line(marker["id"])


def _list_options(parser: ArgumentParser) -> None:
    when(parser, "--from", "from", f"only those that end at or after: {INSTANT}")
    when(parser, "--to", "to", "only those that begin before")
    parser.add_argument("--kind", choices=_KINDS)
    parser.add_argument("--q", help="only with this text in the title")
    parser.add_argument("--label", action="append", metavar="NAME:VALUE")


def _list(args: Namespace) -> Any:
    filters = {name: getattr(args, name) for name in _FILTERS}
    return listed(args, "/v1/markers", "markers", of_project(args, **filters))


def _write_list(markers: list[Any], _args: Namespace) -> None:
    write_rows(_COLUMNS, markers, "No markers. `ett markers add --kind deploy TITLE` adds one.")


def _delete(args: Namespace) -> Any:
    confirmation.require(args, f"the marker {args.id} will be deleted for good")
    ask(args, place("/v1/markers/{}", args.id), of_project(args), method="DELETE")
    return {"id": args.id, "deleted": True}


def _write_deleted(_answer: Any, args: Namespace) -> None:
    write_line(f"{args.id} is deleted.")


VERB = Verb(
    acts={
        "add": act("add a marker", _add, _write_added, _add_options, *_SHARED),
        "list": act("print markers, latest first", _list, _write_list, _list_options, *_SHARED),
        "delete": act(
            "delete a marker",
            _delete,
            _write_deleted,
            named("id", ID),
            confirmation.yes,
            *_SHARED,
        ),
    },
)
