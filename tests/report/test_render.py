import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.charts.svg import chart
from ett_service.report.document import Report, Section, Week, html, markdown, plain, table

HOSTILE = "</td><script>alert(1)</script> | [x](http://example) `a` *b* _c_ \n# d &lt;"


def report(*sections: Section) -> Report:
    """Build a report of some sections."""
    return Report(Week.parse("2026-W47"), "ETT 88.4%.", sections, "2026-11-23T00:00:00Z", 0.884)


def report_with(cell: str) -> Report:
    """Build a report whose only cell is *cell*."""
    return report(Section("Titles", (cell,), table=table("name|#hours", [(cell, "1")])))


def test_a_table_is_as_wide_in_every_line() -> None:
    written = markdown(report_with("x|y"))
    rows = [line for line in written.splitlines() if line.startswith("|")]
    assert rows == ["| name | hours |", "| --- | ---: |", "| x\\|y | 1 |"]


def test_a_row_that_is_not_as_wide_as_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="as wide as its columns"):
        table("name|#hours", [("x", "1"), ("y",)])


def test_a_table_stands_apart_from_the_text_around_it() -> None:
    section = Section("T", ("before",), table=table("a", [("1",)]), after=("after",))
    assert "\n\nbefore\n\n| a |\n| --- |\n| 1 |\n\nafter\n" in markdown(report(section))


def test_no_name_is_markup_in_html() -> None:
    written = html(report_with(HOSTILE))
    assert "<script" not in written
    assert "&lt;script&gt;" in written


def test_no_name_is_markup_in_markdown() -> None:
    (row,) = [
        line for line in markdown(report_with(HOSTILE)).splitlines() if line.endswith("| 1 |")
    ]
    assert "<" not in row.replace("\\<", "")
    assert re.findall(r"(?<!\\)\|", row) == ["|"] * 3
    assert not re.findall(r"(?<!\\)[\[`*&#]", row)


@given(st.text())
def test_any_name_stays_in_its_cell(name: str) -> None:
    assert len(re.split(r"\r\n|[\n\r\u2028\u2029\x85]", str(plain(name)))) == 1


def test_words_of_ours_are_left_as_they_are() -> None:
    assert plain("pt2_compile in llm-70b, 1.5%") == "pt2_compile in llm-70b, 1.5%"
    assert plain("_hidden_") == "\\_hidden\\_"


def test_html_loads_and_runs_nothing() -> None:
    drawn = chart("c", (1, 1), "a", "b")
    written = html(report(Section("T", chart=drawn, table=table("a", [("1",)]))))
    assert drawn in written
    assert not re.search(r"<script|<link|<img|@import|url\((?!#)|src=", written)
    addresses = set(re.findall(r"https?://[^\"'\s<]+", written))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in written


def test_a_section_without_rows_has_no_table() -> None:
    assert table("a|#b", []) is None
    assert "<table" not in html(report(Section("T", ("Nothing.",))))


@pytest.mark.parametrize("write", [markdown, html])
def test_the_sentence_comes_before_every_section(write: object) -> None:
    assert callable(write)
    written = write(report(Section("First", ("x",))))
    assert written.index("ETT 88.4%.") < written.index("First")
