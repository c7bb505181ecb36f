"""Takes pictures of the pages of a demo fleet: ``python -m dashboards.pictures.pages``.

It needs playwright and Debian's chromium.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page, ViewportSize, sync_playwright

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
_SIZE: ViewportSize = {"width": 1360, "height": 1000}
_ETT = "import sys; from ett_service.cli.main import main; sys.exit(main())"


@contextmanager
def demo() -> Iterator[dict[str, Any]]:
    """Serve a demo fleet, and yield what it says of itself."""
    process = subprocess.Popen(  # noqa: S603 -- our own command
        [sys.executable, "-c", _ETT, "demo", "--json"],
        env={name: text for name, text in os.environ.items() if not name.startswith("ETT_")},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if line == "}\n":
                break
        yield json.loads(printed)
    finally:
        process.terminate()
        process.communicate()


# The end of the panel at which least is cut through beside it: at best no row, chart or sentence.
_END = """([least, most]) => {
  const at = (each) => each.getBoundingClientRect();
  const parts = [...document.querySelectorAll("tr, figure, h2, p, summary, .facts, li")].map(at);
  const cut = (y) => parts.filter(({ top, bottom }) => top < y && y < bottom).length;
  const panels = [...document.querySelectorAll(".panel")].map(at);
  const ends = panels.map(({ bottom }) => Math.ceil(bottom) + 12);
  const inside = ends.filter((y) => least <= y && y <= most);
  return inside.sort((a, b) => cut(a) - cut(b) || b - a)[0] ?? most;
}"""


def take(page: Page, name: str) -> None:
    """Take what a reader sees at first, down to the end of a panel."""
    page.wait_for_selector("html.settled")  # until then what lies below the screen is blank
    width, height = _SIZE["width"], _SIZE["height"]
    end = page.evaluate(_END, [0.7 * height, 1.6 * height])
    page.screenshot(
        path=PICTURES / f"page-{name}.png",
        full_page=True,
        clip={"x": 0, "y": 0, "width": width, "height": end},
    )


def main() -> None:
    """Take the fleet, the job that lost most, an attempt, the costliest regression, and what if."""
    PICTURES.mkdir(exist_ok=True)
    with demo() as served, sync_playwright() as engine:
        browser = engine.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        site = urlsplit(served["pages"])
        page = browser.new_page(
            viewport=_SIZE, color_scheme="light", base_url=f"{site.scheme}://{site.netloc}"
        )
        page.goto(served["pages"])
        take(page, "fleet")
        page.goto(page.locator("#jobs tbody th a").first.get_attribute("href") or "/jobs")
        take(page, "job")
        page.goto(page.locator("#attempts tbody th a").first.get_attribute("href") or "/jobs")
        take(page, "attempt")
        for regression in served["regressions"][:1]:
            page.goto(f"/regressions/{regression}")
            take(page, "regression")
        page.emulate_media(color_scheme="dark")
        page.goto("/what-if?infra=50&pt2_compile=50")
        take(page, "what-if")
        browser.close()


if __name__ == "__main__":
    main()
