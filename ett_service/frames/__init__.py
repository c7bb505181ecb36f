"""Jobs, attempts, ledgers and rollups as pandas DataFrames, for notebooks.

    from ett_service import frames

    source = frames.connect("http://127.0.0.1:8080", key="ett_...")
    source.rollups(step="1d", group_by=["team"])

The same calls read a database, through its public views and without writing, where its address
is given instead; only what is computed in the server needs HTTP. Either way columns, their order
and their types are the same: instants (``_at``) are ``datetime64[us, UTC]``, durations
(``_seconds``) are seconds as ``float64``, counts are ``Int64``, ratios are 0 to 1, and what is
unknown is ``<NA>``. Needs ``pip install 'ett-service[frames]'``, and ``[server]`` for a database.
"""

from ett_service.frames.http import HttpSource
from ett_service.frames.source import FrameError, Source

__all__ = ["FrameError", "HttpSource", "Source", "connect"]


def connect(url_or_database: str, key: str | None = None, project: str | None = None) -> Source:
    """Return a source of frames: an ``http`` address with its *key*, or a database's address.

    With *project* it is that project's alone; without, that of what the key, or the role, may read.

    Raises:
        FrameError: where neither follows from *url_or_database*, or packages are missing.
    """
    if url_or_database.startswith(("http://", "https://")):
        return HttpSource(url_or_database, key, project)
    if "://" not in url_or_database:
        raise FrameError(
            f"{url_or_database!r} is not an address",
            "Name a server (http://...), sqlite:///FILE or postgresql+psycopg://...",
        )
    try:
        from ett_service.frames.sql import SqlSource  # noqa: PLC0415 -- HTTP needs pandas alone
    except ModuleNotFoundError as error:
        raise FrameError(
            f"reading a database needs the server's packages ({error.name} is missing)",
            "Install them: pip install 'ett-service[server]'",
        ) from None
    return SqlSource(url_or_database, project)
