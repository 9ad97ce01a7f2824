"""A headless Chromium, for scripts that make pictures of pages and for tests."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from playwright.sync_api import Browser, Locator, Page, sync_playwright

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


def wait_until(where: Page | Locator, condition: str, seconds: float = 30) -> None:
    """Wait until JavaScript holds: an expression of a page, or a function of an element.

    Unlike ``page.wait_for_function``, nothing in the page turns text into code, which
    the content security policy of our pages forbids.

    Raises:
        AssertionError: it does not hold after this many seconds.
    """
    end = time.monotonic() + seconds
    while not where.evaluate(condition):
        assert time.monotonic() < end, f"not true in {seconds} s: {condition}"
        time.sleep(0.02)
