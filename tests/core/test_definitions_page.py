import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "definitions.md"


def test_every_example_on_the_page_of_definitions_runs_as_printed() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)

    assert (failed, tried > 20) == (0, True)
