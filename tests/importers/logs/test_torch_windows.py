"""Begins and ends of compiles, paired."""

import pytest

from ett_service.importers.logs.torch_records import Edge
from ett_service.importers.logs.torch_windows import Mispairing, Windows


def paired(*edges: str) -> Windows:
    """Edges such as ``B a 10`` or ``E a 20 t2``, each on a line of its own."""
    windows = Windows()
    for line, text in enumerate(edges, 1):
        kind, name, at, *thread = text.split()
        windows.add(Edge(" ".join(thread).encode(), kind, name, float(at), "0/0", "", line))
    return windows


def spent(windows: Windows) -> list[dict[str, tuple[float, float]]]:
    return [
        {name: (each.inclusive_us, each.exclusive_us) for name, each in window.phases.items()}
        for window in windows.closed
    ]


NESTED = ("B a 0", "B b 10", "B c 12", "E c 15", "E b 20", "B b 30", "E b 31", "E a 40")


def test_exclusive_time_is_what_nothing_inside_had() -> None:
    assert spent(paired(*NESTED)) == [{"a": (40, 29), "b": (11, 8), "c": (3, 3)}]


def test_threads_are_paired_each_for_itself() -> None:
    windows = paired("B a 0 t1", "B a 5 t2", "B b 6 t1", "E a 20 t2", "E b 21 t1", "E a 30 t1")
    assert spent(windows) == [{"a": (15, 15)}, {"a": (30, 15), "b": (15, 15)}]
    assert windows.flaws == []


def test_what_is_written_twice_counts_once() -> None:
    doubled = [text for text in NESTED for _ in range(2)]
    assert spent(paired(*doubled)) == spent(paired(*NESTED, *NESTED)) == spent(paired(*NESTED))


def test_events_of_a_window_may_be_out_of_order() -> None:
    mixed = (NESTED[0], *NESTED[6:0:-1], NESTED[7])
    windows = paired(*mixed)
    assert (spent(windows), windows.flaws) == (spent(paired(*NESTED)), [])


@pytest.mark.parametrize(
    ("lost", "flaw"),
    [
        (0, Mispairing(7, "a", is_end=True)),
        (1, Mispairing(4, "b", is_end=True)),
        (3, Mispairing(3, "c", is_end=False)),
        (4, Mispairing(2, "b", is_end=False)),
    ],
)
def test_a_lost_event_is_named_and_the_rest_paired(lost: int, flaw: Mispairing) -> None:
    windows = paired(*NESTED[:lost], *NESTED[lost + 1 :])
    assert flaw in windows.flaws
    if lost:
        assert spent(windows)[0]["a"][0] == 40


def test_a_window_without_its_end_is_unfinished() -> None:
    windows = paired(*NESTED, "B a 50", "B b 51", "E b 58")
    assert [(begin.at_us, last.at_us) for begin, last in windows.unfinished()] == [(50, 58)]
    assert len(windows.closed) == 1
