"""A headless Chromium, for scripts that make pictures of pages and for tests."""

from collections.abc import Generator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from tests.report.chromium import find_chromium


@contextmanager
def opened_browser() -> Generator[Browser]:
    """Open the browser that ``make setup`` installs, or one on the path.

    Raises:
        SystemExit: there is none.
    """
    path = find_chromium()
    if path is None:
        raise SystemExit("no Chromium is installed: `python tests/report/chromium.py`")
    with sync_playwright() as playwright:
        # Containers, where tests often run as root, allow browsers no sandbox.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()
