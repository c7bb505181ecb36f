import argparse
from argparse import ArgumentParser, Namespace
from typing import Any

import pytest

from ett_service.cli.main import VERBS, parser
from ett_service.cli.output import write_line
from ett_service.cli.verb import Exit, Mistyped, Verb, actions, check_options, check_verb, perform


def _name(parser: ArgumentParser) -> None:
    parser.add_argument("name")


def _answer(args: Namespace) -> Any:
    return {"name": args.name}


def _write(answer: Any, _args: Namespace) -> None:
    write_line(f"Hello, {answer['name']}.")


def _gate(answer: Any, _args: Namespace) -> Exit:
    return Exit.GATE if answer["name"] == "nobody" else Exit.DONE


GREET = Verb(summary="greet", options=(_name,), run=_answer, write=_write, exit_code=_gate)


def _run(verb: Verb, *words: str) -> Exit:
    parser = argparse.ArgumentParser()
    verb.declare(parser)
    return perform(parser.parse_args(words))


def test_an_answer_is_written_for_people_or_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(GREET, "ada") is Exit.DONE
    assert capsys.readouterr().out == "Hello, ada.\n"
    assert _run(GREET, "ada", "--json") is Exit.DONE
    assert capsys.readouterr().out == '{\n  "name": "ada"\n}\n'


def test_the_exit_code_follows_from_the_answer_whatever_its_form() -> None:
    assert _run(GREET, "nobody") is Exit.GATE
    assert _run(GREET, "nobody", "--json") is Exit.GATE


def test_an_answer_that_is_text_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = Verb(run=lambda _: "a,b\r\n", write=_write)
    for form in ([], ["--json"]):
        assert _run(text, *form) is Exit.DONE
        assert capsys.readouterr().out == "a,b\r\n"


def test_an_act_is_chosen_by_its_word_and_is_needed_unless_the_verb_runs_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _run(Verb(acts={"greet": GREET}), "greet", "ada") is Exit.DONE
    with pytest.raises(SystemExit, match="2"):
        _run(Verb(acts={"greet": GREET}))
    alone = Verb(run=lambda _: None, acts={"greet": GREET})
    capsys.readouterr()
    assert _run(alone) is Exit.DONE
    assert _run(alone, "greet", "ada") is Exit.DONE
    assert capsys.readouterr().out == "Hello, ada.\n"


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
