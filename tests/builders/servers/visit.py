"""A window of a real browser."""

from typing import Any

from tests.builders.servers.site import Site


class Visit:
    """A window of the browser that writes down what goes wrong in it."""

    def __init__(self, chromium: Any, site: Site, **options: Any) -> None:
        self.site = site
        self.context = chromium.new_context(base_url=site.url, **options)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._requested)

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.faults.append(message.text)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.site.url, "data:")):
            self.faults.append(f"asked {request.url}")

    def enter(self, key: str = "") -> None:
        """Sign in at once."""
        cookies = self.site.reader(key).cookies
        name, text = next((each.name, each.value) for each in cookies.jar)
        self.context.add_cookies([{"name": name, "value": text, "url": self.site.url}])

    def sign_in(self, key: str = "") -> None:
        """Sign in as people do."""
        self.page.goto("/sign-in")
        self.page.fill("#key", key or self.site.key())
        self.page.press("#key", "Enter")
        self.page.wait_for_url(f"{self.site.url}/")
