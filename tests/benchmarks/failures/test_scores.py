"""Precision and recall count what they say, and the known misses are all there are."""

import re
from collections.abc import Iterable
from pathlib import Path

from benchmarks.failures.messages import Half, LabelledMessage, read_messages
from benchmarks.failures.scores import WordScore, score
from ett_service.core.words import Cause, Origin

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "failure-rules.md"

KNOWN_MISSES = {
    # The text fits several reasons, and only the thread tells which it was.
    "cdn-29": "gpu_library_failed",
    "dddd_trainer-36": "bad_data",
    "hafs-101-bus": "none",
    "nccl-2076": "peer_gone",
    "nccl-834": "collective_failed",
    "npbgpp-5": "native_crash_text",
    "tankbind-28": "uncaught_exception",
    "uzi-224": "kubernetes_node",
    # SIGBUS is a fault of the program, of shared memory, or of a file that became shorter.
    "deepspeed-4000": "none",
}


def labelled(cause: Cause, message: str, origin: Origin = Origin.USER) -> LabelledMessage:
    return LabelledMessage(
        id=message, source="a/b#1", half=Half.FIT, origin=origin, cause=cause, message=message
    )


def test_the_rules_miss_what_they_are_known_to_miss_and_nothing_else() -> None:
    fit = score(message for message in read_messages() if message.half is Half.FIT)

    assert {miss.id: miss.rule for miss in fit.misses} == KNOWN_MISSES
    assert fit.cause_right == fit.messages - len(KNOWN_MISSES)


def test_precision_is_of_what_is_judged_so_and_recall_of_what_is_labelled_so() -> None:
    scores = score(
        [
            labelled(Cause.OOM, "CUDA out of memory"),
            labelled(Cause.OOM, "std::bad_alloc"),
            labelled(Cause.OOM, "ValueError: too large"),
            labelled(Cause.DATA, "MemoryError: a broken header"),
        ]
    )

    assert (scores.messages, scores.origin_right, scores.cause_right) == (4, 4, 2)
    assert scores.causes == (
        WordScore("data", 1, 0, 0, None, 0.0),
        WordScore("oom", 3, 3, 2, 2 / 3, 2 / 3),
        WordScore("user_code", 0, 1, 0, 0.0, None),
    )
    assert scores.confusions == ((Cause.OOM, Cause.USER_CODE, 1), (Cause.DATA, Cause.OOM, 1))


def test_an_origin_can_be_wrong_where_the_cause_is_right() -> None:
    scores = score([labelled(Cause.STORAGE, "No space left on device")])

    assert (scores.origin_right, scores.cause_right) == (0, 1)
    assert [miss.rule for miss in scores.misses] == ["disk_full"]


def figures(words: Iterable[WordScore], name: str) -> str:
    """The cells of one half in the line of *name*."""
    for word in words:
        if word.word == name:
            shares = (word.precision, word.recall)
            shown = ("-" if share is None else f"{share:.2f}" for share in shares)
            return " | ".join((str(word.labelled), *shown))
    return "- | - | -"


def test_the_page_for_people_shows_what_is_measured() -> None:
    rows = [
        line for line in PAGE.read_text().splitlines() if re.match(r"\| [a-z_]+ \| [\d-]", line)
    ]

    fit, held_back = (
        score(message for message in read_messages() if message.half is half) for half in Half
    )
    assert rows == [
        f"| {name} | {figures(fitted, name)} | {figures(held, name)} |"
        for fitted, held in ((fit.origins, held_back.origins), (fit.causes, held_back.causes))
        for name in sorted({word.word for word in (*fitted, *held)})
    ]
    assert f"of {fit.messages} and {held_back.messages} messages" in PAGE.read_text()
