"""What a verb of ``ett`` is: its arguments, its answer and how that is printed, and mistyped words.

This module imports the standard library alone: a trainer's image has nothing else.
"""

import sys
import time
from argparse import Action, ArgumentParser, HelpFormatter, Namespace, _SubParsersAction
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import IntEnum
from typing import Any, ClassVar

from ett_service.cli.output import write_json
from ett_service.core.errors import EttError

_COMMANDS = frozenset({"run"})  #: the words of these are another command's, too


class Exit(IntEnum):
    """Exit codes of ``ett``; part of its public surface."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    GATE = 3  #: a gate was not met
    OUT_OF_REACH = 4  #: the server could not be reached
    NOT_ALLOWED = 5
    UNDECIDED = 6  #: a gate could not decide


class Failure(EttError):
    """The command failed."""

    code: ClassVar[Exit] = Exit.FAILED


class OutOfReach(Failure):
    """The server did not answer."""

    code = Exit.OUT_OF_REACH


class NotAllowed(Failure):
    """The key is unknown, or lacks the scope."""

    code = Exit.NOT_ALLOWED


def now_us() -> int:
    """Return the time in microseconds since the Unix epoch."""
    return time.time_ns() // 1000


def add_json(parser: ArgumentParser) -> None:
    """Offer ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def _itself(answer: Any) -> Any:
    return answer


def _done(_answer: Any, _args: Namespace) -> Exit:
    return Exit.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb, or one act of a verb.

    With ``write`` it has an answer: ``--json`` prints ``as_json`` of it, else ``write`` prints it
    for people; an answer that is text already is printed in either case. With ``acts`` the next
    word of the command line chooses one of them.
    """

    summary: str = ""  #: a line of help; that of a whole verb stands in the list of verbs
    description: str | None = None
    epilog: str | None = None
    formatter: type[HelpFormatter] = HelpFormatter  #: of the help's texts
    options: tuple[Callable[[ArgumentParser], None], ...] = ()  #: each declares some arguments
    run: Callable[[Namespace], Any] | None = None  #: None where an act must be chosen
    write: Callable[[Any, Namespace], None] | None = None
    as_json: Callable[[Any], Any] = _itself
    exit_code: Callable[[Any, Namespace], Exit] = _done
    acts: Mapping[str, "Verb"] = field(default_factory=dict)
    acts_dest: str = "act"  #: where the chosen act is stored
    acts_title: str | None = None  #: of their section of the help

    def declare(self, parser: ArgumentParser) -> None:
        """Declare the arguments, and those of the acts; ``perform`` finds what was chosen."""
        for add in self.options:
            add(parser)
        if self.write is not None:
            add_json(parser)
        parser.set_defaults(chosen=self)
        if not self.acts:
            return
        is_needed = self.run is None
        acts = parser.add_subparsers(
            dest=self.acts_dest,
            metavar=f"{{{','.join(self.acts)}}}" if is_needed else f"[{self.acts_dest.upper()}]",
            **({"title": self.acts_title} if self.acts_title else {}),
            required=is_needed,
        )
        for name, act in self.acts.items():
            act.declare(
                acts.add_parser(
                    name, help=act.summary, description=act.description, epilog=act.epilog
                )
            )


def act(
    summary: str,
    run: Callable[[Namespace], Any],
    write: Callable[[Any, Namespace], None],
    *options: Callable[[ArgumentParser], None],
    exit_code: Callable[[Any, Namespace], Exit] = _done,
) -> Verb:
    """Return an act of a verb; see there for its members."""
    return Verb(summary=summary, options=options, run=run, write=write, exit_code=exit_code)


def perform(args: Namespace) -> Exit:
    """Run what *args* chose, print its answer and return the exit code."""
    verb: Verb = args.chosen
    assert verb.run is not None  # the parser requires an act
    answer = verb.run(args)
    if isinstance(answer, str):
        sys.stdout.write(answer)
    elif verb.write is not None:
        if args.json:
            write_json(verb.as_json(answer))
        else:
            verb.write(answer, args)
    return verb.exit_code(answer, args)


class Mistyped(Failure):
    """The command line names what there is not."""

    code = Exit.USAGE


def check_verb(word: str, verbs: Iterable[str]) -> None:
    """Raise ``Mistyped`` where a verb is named and is none of *verbs*."""
    if word and word not in (names := [*verbs]):
        raise Mistyped(f"there is no verb {word!r}{_meant(word, names)}", "See: ett --help")


def check_options(verb: str, parser: ArgumentParser, words: Sequence[str]) -> None:
    """Raise ``Mistyped`` where *words* have an option of neither the verb nor an act of it."""
    if verb in _COMMANDS:
        return
    options = [option for action in actions(parser) for option in action.option_strings]
    for word in words[: words.index("--") if "--" in words else None]:
        name = word.partition("=")[0]
        if name.startswith("--") and not any(option.startswith(name) for option in options):
            hint = f"See: ett {verb} --help"
            raise Mistyped(f"`ett {verb}` has no option {name}{_meant(name, options)}", hint)


def actions(parser: ArgumentParser) -> Iterator[Action]:
    """Yield the arguments of a parser and of those below it."""
    for action in parser._actions:  # noqa: SLF001 - nothing public lists them
        yield action
        if isinstance(action, _SubParsersAction):
            for below in action.choices.values():
                yield from actions(below)


def _meant(word: str, names: Sequence[str]) -> str:
    close = get_close_matches(word, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""
