"""``ett demo``: a service with a fleet of some weeks in it, to explore."""

import json
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ett_service.cli.arguments import INSTANT
from ett_service.cli.arguments import instant as rfc3339_instant
from ett_service.cli.demo.server import LOG, DemoServer, Narrator, keep_alive, load, search, served
from ett_service.cli.output import write_json, write_line
from ett_service.cli.verb import Failure, Verb, add_json, now_us
from ett_service.core.intervals import rfc3339
from ett_service.demo.generator import LEAST_DAYS, MOST_DAYS, Fleet, generate

TRUTH = "truth.json"

_FIRST_YEAR = 2020  #: the demo's prices begin with it
_SIGN_EVERY_S = 30.0


@dataclass(frozen=True)
class Demo:
    """A loaded service."""

    server: DemoServer
    fleet: Fleet
    read_key: str
    write_key: str
    regressions: Sequence[Mapping[str, Any]]  #: the costliest first
    seconds: float  #: until it was ready

    @property
    def truth(self) -> Path:
        """The file with what only the generator knows."""
        return self.server.folder / TRUTH

    def members(self) -> dict[str, Any]:
        """Return what a program needs to go on from here."""
        return {
            "url": self.server.url,
            "pages": self.server.link,
            "key": self.server.key,
            "read_key": self.read_key,
            "write_key": self.write_key,
            "directory": str(self.server.folder),
            "database": str(self.server.database),
            "truth": str(self.truth),
            "counts": self.fleet.truth["counts"],
            "regressions": [regression["id"] for regression in self.regressions],
            "seconds": round(self.seconds, 1),
        }


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--days", type=number_of_days, default=60, help="length of the fleet (default 60)"
    )
    parser.add_argument("--seed", type=int, default=7, help="seed of the fleet (default 7)")
    parser.add_argument(
        "--end", type=instant, metavar="WHEN", help="end of the fleet (default now)"
    )
    parser.add_argument(
        "--directory", type=Path, help="keep the database and the truth there (default: neither)"
    )
    parser.add_argument("--port", type=int, default=0, help="port (default: a free one)")
    parser.add_argument("--no-serve", action="store_true", help="end once the fleet is loaded")


def _demo(args: Namespace) -> None:
    """Load the fleet and serve it until SIGINT or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the server would be left behind
    with _folder(args.directory) as folder, loaded(args, folder) as demo:
        if args.json:
            write_json(demo.members())
        else:
            _invite(demo, is_kept=args.directory is not None, is_served=not args.no_serve)
        sys.stdout.flush()  # a reader may be waiting for it
        if not args.no_serve:
            _serve(demo, follows_time=args.end is None)


@contextmanager
def loaded(args: Namespace, folder: Path) -> Iterator[Demo]:
    """Make the fleet in *folder* and serve it until the block ends. Raises ``Failure``."""
    narrator = Narrator()
    end_us = args.end or now_us()
    with served(folder, args.port) as server:
        fleet = generate(seed=args.seed, days=args.days, end_us=end_us)
        counts = fleet.truth["counts"]
        narrator.say(
            f"generated a fleet of {args.days} days: {counts['jobs']:,} jobs, "
            f"{counts['attempts']:,} attempts, {counts['events']:,} events"
        )
        (folder / TRUTH).write_text(json.dumps(fleet.truth, indent=2) + "\n")
        load(server, fleet, narrator)
        regressions = search(server, narrator)
        if args.end is not None:
            at = rfc3339(end_us)
            narrator.say(f"they are as of now; `ett detect --at {at}` is as of the fleet's end")
        read_key = server.make_key("to look around", ["read"])
        write_key = server.make_key("for a trainer", ["read", "write"])
        yield Demo(server, fleet, read_key, write_key, regressions, narrator.seconds)


def _serve(demo: Demo, *, follows_time: bool) -> None:
    """Keep the service up until somebody ends it, and what runs in it running."""
    try:
        while True:
            try:
                demo.server.process.wait(_SIGN_EVERY_S)
            except subprocess.TimeoutExpired:
                if follows_time:
                    keep_alive(demo.server, demo.fleet, now_us())
            else:
                raise Failure("the demo's server ended", f"Its log is {demo.server.folder / LOG}.")
    except KeyboardInterrupt:
        write_line()


def _invite(demo: Demo, *, is_kept: bool, is_served: bool) -> None:
    counts = demo.fleet.truth["counts"]
    lines = [f"{counts['jobs']:,} jobs are loaded, {demo.seconds:.0f} s after the start."]
    if is_kept or is_served:
        lines += [f"database  {demo.server.database}", f"truth     {demo.truth}"]
    if is_kept:
        lines += [f"again     cd {demo.server.folder} && ett serve"]
    if is_served:
        lines += _examples(demo)
        lines += ["Ctrl-C ends the demo" + ("." if is_kept else ", and nothing is kept.")]
    for line in lines:
        write_line(line)


def _examples(demo: Demo) -> list[str]:
    newest = demo.fleet.stories[-1].job.name
    return [
        f"pages     {demo.server.link}",
        f"address   {demo.server.url}/docs",
        f"key       {demo.server.key} (it may do everything: the demo serves this machine alone)",
        "",
        "Try, in another terminal:",
        f"  export ETT_URL={demo.server.url} ETT_API_KEY={demo.server.key}",
        "  ett fleet --by team",
        "  ett explain --by team",
        f"  ett job {newest}",
        "  ett regressions list",
        *(f"  ett regressions explain {regression['id']}" for regression in demo.regressions[:1]),
        "",
    ]


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    if chosen is None:
        with tempfile.TemporaryDirectory(prefix="ett-demo-") as temporary:
            yield Path(temporary)
        return
    if chosen.exists() and any(chosen.iterdir()):
        raise Failure(f"{chosen} is not empty", "Name a new directory, or leave --directory out.")
    chosen.mkdir(parents=True, exist_ok=True)
    yield chosen.absolute()


def number_of_days(text: str) -> int:
    """Read the length of a fleet."""
    days = int(text)
    if not LEAST_DAYS <= days <= MOST_DAYS:
        raise ArgumentTypeError(f"must be from {LEAST_DAYS} to {MOST_DAYS}")
    return days


def instant(text: str) -> int:
    """Read an instant, in microseconds since the Unix epoch."""
    try:
        at = datetime.fromisoformat(rfc3339_instant(text))
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not {INSTANT}") from None
    if at.tzinfo is None:
        raise ArgumentTypeError("needs an offset, such as Z")
    if at.year < _FIRST_YEAR or at > datetime.now(UTC):
        raise ArgumentTypeError(f"must lie between the year {_FIRST_YEAR} and now")
    return round(at.timestamp() * 1_000_000)


VERB = Verb(
    description="Generate a fleet of known properties, load it through the API and serve it until "
    "Ctrl-C. The same seed and the same end give the same fleet.",
    options=(_options, add_json),
    run=_demo,
)
