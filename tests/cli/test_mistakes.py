from argparse import ArgumentParser

import pytest

from ett_service.cli.main import VERBS, parser
from ett_service.cli.mistakes import Mistyped, actions, check_options, check_verb


def test_the_verb_that_was_meant_is_named() -> None:
    with pytest.raises(Mistyped, match=r"'jbos'; did you mean jobs\?"):
        check_verb("jbos", VERBS)
    with pytest.raises(Mistyped, match=r"'dance'$"):
        check_verb("dance", VERBS)
    check_verb("", VERBS)


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "--team", "a"],
        ["jobs", "--te", "a"],  # argparse completes it
        ["jobs", "verdict", "a", "1", "--cause=oom"],
        ["jobs", "--", "--none"],
    ],
)
def test_options_that_there_are_pass(words: list[str]) -> None:
    check_options("jobs", parser("jobs"), words)


def test_the_option_that_was_meant_is_named() -> None:
    with pytest.raises(Mistyped, match=r"no option --tem; did you mean --team\?"):
        check_options("jobs", parser("jobs"), ["jobs", "--tem=a"])


def test_the_words_of_a_command_that_is_run_are_its_own() -> None:
    check_options("run", parser("run"), ["run", "python", "train.py", "--learning-rate", "1"])


def test_the_arguments_of_acts_are_listed_too() -> None:
    below = ArgumentParser()
    below.add_subparsers().add_parser("act").add_argument("--deep")
    assert any("--deep" in action.option_strings for action in actions(below))
