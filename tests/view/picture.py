"""Makes the pictures of the page that the README and the guide show.

    python -m tests.view.picture

The model is that of the guide.  It needs a Chromium: ``make setup`` installs one.
"""

import re
import tempfile
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner
from playwright.sync_api import Browser

from tests.report.browser import opened_browser
from wrapperir.cli.main import main as wrapperir

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
GUIDE = GUIDES / "where-did-my-line-go.md"
LINE = ".panel[data-name=source] .line[data-row='11']"
"""Line 12 of the model."""


def main() -> None:
    """Write the pictures.

    Raises:
        SystemExit: there is no Chromium.
    """
    with tempfile.TemporaryDirectory() as folder, opened_browser() as browser:
        html = write_page(Path(folder))
        take(browser, html, "light", "kernels", GUIDES / "view.png")
        take(browser, html, "dark", "passes", GUIDES / "view-passes.png")


def write_page(folder: Path) -> Path:
    """Write the guide's model and its page, and return the page."""
    block = r"<!-- file: mlp.py -->\n```python\n(.*?)```"
    found = re.search(block, GUIDE.read_text(), re.DOTALL)
    assert found is not None
    (folder / "mlp.py").write_text(found[1])
    page = folder / "page.html"
    arguments = ["view", "--pass", "memory", "mlp.py:Mlp", "-o", str(page)]
    with chdir(folder):
        result = CliRunner().invoke(wrapperir, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    page.write_text(page.read_text().replace(f"{folder}/", ""))
    return page


def take(browser: Browser, html: Path, colours: str, tool: str, picture: Path) -> None:
    """Pin line 12, show its C++ and a view below, and take a picture."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800},
        color_scheme="dark" if colours == "dark" else "light",
    )
    page = context.new_page()
    page.goto(html.as_uri())
    page.click(f"#tabs [data-panel={tool}]")
    page.click("#emitters [data-emitter=cpp]")
    page.click(LINE)
    if tool == "passes":
        page.click("#steps button:has-text('plan_memory')")
    page.hover("h1")
    page.screenshot(path=picture)
    context.close()
    print(f"{picture}: {picture.stat().st_size} bytes")


if __name__ == "__main__":
    main()
