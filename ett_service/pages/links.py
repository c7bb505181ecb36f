"""Where things are shown."""

from urllib.parse import quote, urlencode


def quoted(name: str) -> str:
    """Write a name as one part of a path."""
    # A dot alone would be taken for the folder itself.
    return quote(name, safe="") if name not in {".", ".."} else name.replace(".", "%2E")


def job_page(job: str, project: str | None = None, anchor: str = "") -> str:
    """Return the address of a job."""
    query = f"?{urlencode({'project': project})}" if project else ""
    return f"/jobs/{quoted(job)}{query}{anchor}"


def regression_page(regression: str, project: str | None = None) -> str:
    """Return the address of a regression."""
    query = f"?{urlencode({'project': project})}" if project else ""
    return f"/regressions/{quoted(regression)}{query}"
