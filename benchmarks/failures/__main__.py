"""``python -m benchmarks.failures``: how often the failure rules are right on real messages."""

import argparse
import sys
from collections.abc import Iterable, Sequence

from benchmarks.failures.messages import Half, read_messages
from benchmarks.failures.scores import HalfScore, WordScore, score
from ett_service.cli.output import write_json, write_line
from ett_service.cli.tables import write_cells
from ett_service.cli.verb import Exit, add_json

_NUMBERS = ("labelled", "judged", "right", "precision", "recall")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the scores of the halves and return the exit code."""
    args = _parser().parse_args(argv)
    messages = read_messages()
    halves = {
        half: score(message for message in messages if message.half is half)
        for half in ([args.half] if args.half else Half)
    }
    if args.json:
        write_json(halves)
        return Exit.DONE
    for half, scores in halves.items():
        _write(half, scores)
        if args.misses:
            _write_misses(scores)
    return Exit.DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.failures",
        description="Classify real error messages and compare with what people found out.",
        epilog="docs/howto/failure-rules.md explains the rules and the table.",
    )
    parser.add_argument("--half", type=Half, choices=list(Half), help="only this half")
    parser.add_argument("--misses", action="store_true", help="name the messages that are wrong")
    add_json(parser)
    return parser


def _write(half: Half, scores: HalfScore) -> None:
    write_line(
        f"{half}: {scores.messages} messages, "
        f"origin right {_percent(scores.origin_right, scores.messages)}, "
        f"cause right {_percent(scores.cause_right, scores.messages)}"
    )
    _write_words("origin", scores.origins)
    _write_words("cause", scores.causes)
    write_line()
    write_cells(
        ("labelled", "judged", "n"),
        [(labelled, judged, str(n)) for labelled, judged, n in scores.confusions],
        right=("n",),
    )
    write_line()


def _write_words(heading: str, words: Iterable[WordScore]) -> None:
    write_line()
    rows = [
        (
            word.word,
            str(word.labelled),
            str(word.judged),
            str(word.right),
            _shown(word.precision),
            _shown(word.recall),
        )
        for word in words
    ]
    write_cells((heading, *_NUMBERS), rows, right=_NUMBERS)


def _write_misses(scores: HalfScore) -> None:
    write_cells(
        ("message", "labelled", "judged", "rule"),
        [
            (
                miss.id,
                f"{miss.origin} {miss.cause}",
                f"{miss.judged_origin} {miss.judged_cause}",
                miss.rule,
            )
            for miss in scores.misses
        ],
        right=(),
    )
    write_line()


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%} ({part})"


def _shown(share: float | None) -> str:
    return "-" if share is None else f"{share:.2f}"


if __name__ == "__main__":
    sys.exit(main())
