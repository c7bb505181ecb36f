"""One search of a fleet finds a large change, and little where nothing changed."""

import pytest

from benchmarks.detectors.__main__ import main
from benchmarks.detectors.one_search import search_once
from ett_service.cli.verb import Exit


@pytest.mark.slow
def test_a_large_change_is_found_and_chance_is_bounded() -> None:
    changed = search_once("cell-2.5@60", range(1, 5))
    assert changed.right_cell is not None
    assert (changed.right_cell.hits, changed.right_cell.of) == (4, 4)
    assert changed.bound is not None
    assert 0.9 < changed.bound.searched <= changed.bound.known
    usual = search_once("null@12", range(1, 7), jobs=2)
    assert (usual.right_cell, usual.bound, usual.fleets) == (None, None, 6)
    assert usual.false_per_search < 0.3


@pytest.mark.slow
def test_a_larger_share_of_false_findings_finds_more() -> None:
    careful, careless = (search_once("cell-1.3@12", range(1, 9), q=q) for q in (1e-6, 0.9))
    assert careful.false_per_search < careless.false_per_search
    assert careful.right_cell is not None
    assert careless.right_cell is not None
    assert careful.right_cell.hits < careless.right_cell.hits


def test_it_prints_a_line_for_each_cell(capsys: pytest.CaptureFixture[str]) -> None:
    cells = ("null@12", "cell-2.5@12")
    assert main(["once", "--cells", ",".join(cells), "--fleets", "1"]) == Exit.DONE
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == [
        "cell", "fleets", "false/search", "right", "cell", "bound", "searched",
    ]  # fmt: skip
    assert [line.split()[:2] for line in lines] == [[cell, "1"] for cell in cells]


@pytest.mark.parametrize("q", ["0", "1", "-0.1"])
def test_a_share_that_is_none_is_refused(q: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["once", "--cells", "null@12", "--fleets", "1", "--q", q]) == Exit.FAILED
    assert "between 0 and 1" in capsys.readouterr().err
