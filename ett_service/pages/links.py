"""Where things are shown: on these pages and, if the settings say where that is, in Grafana."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import quote, urlencode

from starlette.requests import Request

from ett_service.pages.sessions import state_of

_KEPT = 4_096  #: addresses, of which a page has hundreds, many of them as the page before


def encoded(members: Mapping[str, object]) -> str:
    """Write members as a query; None and empty ones are left out, sequences are repeated."""
    return _encoded(
        tuple(
            (name, tuple(map(str, value)) if isinstance(value, (tuple, list)) else str(value))
            for name, value in members.items()
            if value not in (None, "", (), [])
        )
    )


@lru_cache(_KEPT)
def _encoded(members: tuple[tuple[str, str | tuple[str, ...]], ...]) -> str:
    return urlencode(members, doseq=True)


@lru_cache(_KEPT)
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
    members = {**window, "where": (*where,), "project": project, "category": category}
    return f"/?{encoded(members)}#jobs"


def _scoped(path: str, project: str | None) -> str:
    return f"{path}?{encoded({'project': project})}" if project else path


def dashboard(
    request: Request, uid: str, window_us: tuple[int, int] | None = None, **variables: str
) -> str:
    """Return the address of a dashboard in a window, with its variables; empty without Grafana."""
    root = state_of(request).grafana_url
    if not root.startswith(("http://", "https://")):
        return ""
    query: dict[str, object] = {f"var-{name}": text for name, text in variables.items()}
    if window_us is not None:
        query |= dict(zip(("from", "to"), (us // 1000 for us in window_us), strict=True))
    return f"{root.rstrip('/')}/d/{uid}" + (f"?{urlencode(query)}" if query else "")
