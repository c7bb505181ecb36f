"""Writes a report: as Markdown for chats and mail, or as one HTML file that needs nothing else.

Both come from templates whose every value is escaped by what writes them, not by what is
remembered in a template.
"""

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from ett_service.charts.palette import STYLE
from ett_service.report.page import Report

_MARKS = re.compile(r"([\\`*\[\]<>|#~&])")
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BREAKS = re.compile(r"[\r\n\u2028\u2029\x85]+")


def markdown(report: Report) -> str:
    """Write *report* as Markdown; its charts, which repeat the tables, are left out."""
    return _environment("md").get_template("report.md").render(report=report)


def html(report: Report) -> str:
    """Write *report* as one HTML file, without a script and without anything to load."""
    return _environment("html").get_template("report.html").render(report=report, style=STYLE)


def plain(value: object) -> object:
    """Escape what a template writes into Markdown, so that no name can be markup there."""
    if not isinstance(value, str):
        return value
    line = _BREAKS.sub(" ", value)
    return _EMPHASIS.sub(r"\\_", _MARKS.sub(r"\\\1", line))


@cache
def _environment(kind: str) -> Environment:
    return Environment(
        loader=PackageLoader("ett_service.report"),
        autoescape=kind == "html",  # noqa: S701 -- Markdown is escaped by `plain`
        finalize=plain if kind == "md" else None,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
