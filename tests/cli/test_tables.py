import os
import re
import subprocess
import sys
from collections.abc import Iterable
from enum import StrEnum

import pytest

from ett_service.cli import tables
from ett_service.cli.tables import number, text, write_table
from ett_service.core.regressions.finding import Severity, State, Verdict
from ett_service.core.words import JobState, Outcome
from tests.builders import terminal


def test_a_piped_table_is_plain_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    rows = [{"name": long, "count": 1}, {"name": "b", "count": 20}]
    write_table((text("name"), number("count")), rows)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "count"]
    assert first == f"{long}      1"
    assert second.split() == ["b", "20"]


def test_a_narrow_terminal_folds_words_and_cuts_nothing() -> None:
    program = (
        "from ett_service.cli.tables import number, prose, write_table\n"
        "row = {'name': 'n' * 50, 'count': '123456789', 'why': 'w' * 70}\n"
        "columns = prose('name'), number('count'), prose('why')\n"
        "write_table(columns, [row], last=('all', '987654321', ''))"
    )
    for columns in (20, 60):
        shown = _on_a_terminal(program, columns)
        assert "123456789" in shown
        assert "987654321" in shown
        assert (shown.count("n"), shown.count("w")) == (52, 71)  # with those of the heads


_JOBS = """
from ett_service.cli.tables import identifier, number, prose, spare, styled, text, write_table
row = {"job": "llm-405b-pretrain-11-15", "id": "01M76GVQ005HSC6023KY8TNWJQ", "gpus": 4096}
row |= {"state": "failed", "why": "https://example.test/" + "x" * 90, "of": "cluster:birch of:b"}
columns = (identifier("job"), identifier("id"), styled(text("state"), lambda cell: "red"))
columns += (prose("why"), text("of"), spare(number("gpus")))
write_table((*columns, spare(number("accelerators", "gpus"))), [row])
"""


@pytest.mark.parametrize("columns", [100, 120, 160])
def test_a_table_fits_the_terminal_and_breaks_no_name(columns: int) -> None:
    shown = _on_a_terminal(_JOBS, columns)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= columns
    assert "llm-405b-pretrain-11-15  01M76GVQ005HSC6023KY8TNWJQ" in shown
    assert shown.count("x") == 90 + 1  # none is lost
    left_out = [name for name in ("gpus", "accelerators") if f"too narrow for: {name}" in shown]
    assert left_out == {100: ["accelerators"]}.get(columns, [])


_FINDINGS = """
from ett_service.cli.tables import identifier, number, text, write_table
row = {"id": "01M76GVQ005HSC6023KY8TNWJQ", "what": "checkpoint_blocking_seconds", "ratio": "x 2.17"}
row |= {"cohort": "cluster:birch model:vision-transformer-22b"}
write_table((identifier("id"), text("what"), text("cohort"), number("ratio")), [row])
"""


def test_long_words_are_folded_at_their_joints_where_nothing_is_spare() -> None:
    assert "checkpoint_blocking_seconds  cluster:birch" in _on_a_terminal(_FINDINGS, 100)

    shown = _on_a_terminal(_FINDINGS, 72)
    assert max(map(len, shown.splitlines())) <= 72
    cells = [line[28:].split() for line in shown.splitlines()[2:]]
    assert cells == [
        ["checkpoint_", "cluster:birch", "x", "2.17"],
        ["blocking_", "model:"],
        ["seconds", "vision-transformer-22b"],
    ]


def test_words_are_styled_on_a_terminal_alone() -> None:
    assert "\x1b[31mfailed" in _on_a_terminal(_JOBS, 120, NO_COLOR="")
    assert "[31m" not in _on_a_terminal(_JOBS, 120, NO_COLOR="1")
    assert "[31m" not in _on_a_terminal(_JOBS, 120, NO_COLOR="", TERM="dumb")
    for forced, styled in (("1", True), ("", False)):
        piped = subprocess.run(
            [sys.executable, "-c", _JOBS],
            env=_environment(FORCE_COLOR=forced),
            capture_output=True,
            text=True,
            check=True,
        )
        assert ("\x1b[31mfailed" in piped.stdout) is styled


def _environment(**variables: str) -> dict[str, str]:
    ours = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    given = {name: value for name, value in variables.items() if value}
    return kept | {"TERM": "xterm-256color"} | given


def _on_a_terminal(program: str, columns: int, **variables: str) -> str:
    """Run *program* on a terminal and return what it shows, without bold letters."""
    given = variables or {"NO_COLOR": "1"}
    written = terminal.shown([sys.executable, "-c", program], columns, _environment(**given))
    return written if variables else re.sub(r"\x1b\[[0-9;]*m", "", written)


def test_markup_in_a_name_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    write_table((text("name"),), [{"name": "[bold]a[/bold]"}])
    assert "[bold]a[/bold]" in capsys.readouterr().out


def test_a_column_reads_a_member_of_a_member_and_nothing_of_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = (text("cohort", "where.team"), number("doubled", lambda row: row["n"], str))
    write_table(columns, [{"where": {"team": "a"}, "n": 2}, {"where": None, "n": None}])
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["a", "2"]
    assert second.split() == ["None"]


def test_columns_of_one_heading_are_columns_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_table((number("n", "before"), number("n", "after")), [{"before": 1, "after": 2}])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["n", "n"],
        ["1", "2"],
    ]


def test_what_went_wrong_is_red_and_what_went_well_green() -> None:
    assert {tables.outcome(word) for word in ("failed", "lost", "firing", "worse")} == {"red"}
    assert {tables.outcome(word) for word in ("completed", "resolved", "better")} == {"green"}
    assert tables.outcome("firing (muted)") == "red"
    assert tables.outcome("a word of its own") == ""


@pytest.mark.parametrize("words", [Outcome, State, JobState])
def test_every_outcome_and_state_but_the_usual_ones_has_a_style(words: Iterable[StrEnum]) -> None:
    plain = {word.value for word in words if not tables.outcome(word.value)}
    assert plain <= {"finished"}


def test_verdicts_and_severities_are_told_apart() -> None:
    assert tables.outcome(Verdict.REGRESSION) != tables.outcome(Verdict.IMPROVEMENT)
    assert len({tables.outcome(severity) for severity in Severity}) == len(Severity)


@pytest.mark.parametrize(
    ("cell", "style"),
    [
        ("+0.4 pt", "green"),
        ("-0.4 pt", "red"),
        ("+1m 43s", "red"),
        ("-2m 28s", "green"),
        ("0.0 pt", ""),
        ("-", ""),
    ],
)
def test_a_change_has_the_style_of_what_it_means(cell: str, style: str) -> None:
    assert tables.difference(cell) == style
