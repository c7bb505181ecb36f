"""Where things are shown."""

from collections.abc import Iterable
from urllib.parse import quote, urlencode


def quoted(name: str) -> str:
    """Write a name as one part of a path."""
    # A dot alone would be taken for the folder itself.
    return quote(name, safe="") if name not in {".", ".."} else name.replace(".", "%2E")


def job_page(job: str, project: str | None = None) -> str:
    """Return the address of a job."""
    return _scoped(f"/jobs/{quoted(job)}", project)


def regression_page(regression: str, project: str | None = None) -> str:
    """Return the address of a regression."""
    return _scoped(f"/regressions/{quoted(regression)}", project)


def attempt_page(job: str, number: int, project: str | None = None) -> str:
    """Return the address of an attempt."""
    return _scoped(f"/jobs/{quoted(job)}/attempts/{number}", project)


def part_page(job: str, part: str, project: str | None = None) -> str:
    """Return the address of a page about one side of a job, such as ``compile``."""
    return _scoped(f"/jobs/{quoted(job)}/{part}", project)


def losing_jobs(
    where: Iterable[str],
    project: str | None,
    span: tuple[str | None, str | None],
    category: str | None = None,
) -> str:
    """Return where the jobs of some conditions stand that lost most, or most by a *category*.

    The *span* is RFC 3339; without its begin it is the longest window of the page.
    """
    begin, end = span
    window = {"from": begin, "to": end} if begin else {"window": "90d"}
    members = {**window, "where": list(where), "project": project, "category": category}
    given = {name: value for name, value in members.items() if value}
    return f"/?{urlencode(given, doseq=True)}#jobs"


def _scoped(path: str, project: str | None) -> str:
    return f"{path}?{urlencode({'project': project})}" if project else path
