"""A headless Chromium for the tests of pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, field
from playwright.sync_api import Browser, Page

from tests.report.browser import opened_browser
from tests.report.chromium import find_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the browser, or skip where none is found."""
    if find_chromium() is None:
        pytest.skip("no Chromium is installed: `python tests/report/chromium.py`")
    with opened_browser() as started:
        yield started


@define
class Opened:
    """A page, the requests that it made but for itself, and what it complained of."""

    page: Page
    requests: list[str] = field(factory=list[str])
    complaints: list[str] = field(factory=list[str])


class Opener:
    """Opens pages from files; at the end, each must have been quiet."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser = browser
        self.folder = folder
        self.opened: list[Opened] = []

    def open(
        self, html: str, *, dark: bool = False, width: int = 1400, height: int = 1700
    ) -> Page:
        """Return the page of this text."""
        file = self.folder / f"page{len(self.opened)}.html"
        file.write_text(html, encoding="utf-8")
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        opened = Opened(context.new_page())
        self.opened.append(opened)
        page, url = opened.page, file.as_uri()
        page.on(
            "request", lambda r: opened.requests.append(r.url) if r.url != url else None
        )
        page.on("console", lambda message: opened.complaints.append(message.text))
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on("dialog", lambda dialog: opened.complaints.append(dialog.message))
        page.goto(url)
        return page


@pytest.fixture
def opener(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Open pages; nothing of them may fail or reach for the network."""
    opener = Opener(browser, tmp_path)
    yield opener
    for opened in opener.opened:
        opened.page.context.close()
        assert opened.requests == []
        assert opened.complaints == []
