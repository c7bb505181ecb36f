"""Mistyped verbs and options: what was meant, in one line, before argparse reads the words."""

from argparse import Action, ArgumentParser, _SubParsersAction
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from ett_service.cli.verb import Exit, Failure

_COMMANDS = frozenset({"run"})  #: the words of these are another command's, too


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
