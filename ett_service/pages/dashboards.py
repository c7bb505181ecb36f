"""Where Grafana shows the same as a page, if the settings say where Grafana is."""

from urllib.parse import urlencode

from starlette.requests import Request

from ett_service.pages.sessions import state_of


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
