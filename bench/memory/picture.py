"""Makes the picture in ``docs/guides/memory.md``: the memory page of a BERT.

    python -m bench.memory.picture

It needs a Chromium: ``make setup`` installs one.
"""

import tempfile
from contextlib import chdir
from pathlib import Path

import torch
import transformers
from click.testing import CliRunner
from playwright.sync_api import Page

from bench.memory.models import TASKS
from bench.results import ROOT
from tests.report.browser import opened_browser
from wrapperir.cli.main import main as wrapperir
from wrapperir.frontend.inductor import capture
from wrapperir.text import format_program

PICTURE = ROOT / "docs" / "guides" / "memory.png"
MODEL = "bert"


def main() -> None:
    """Write the picture.

    Raises:
        SystemExit: there is no Chromium.
    """
    with tempfile.TemporaryDirectory() as folder, opened_browser() as browser:
        html = write_page(Path(folder))
        page = browser.new_page(viewport={"width": 1060, "height": 1075})
        page.goto(html.as_uri())
        take(page)
    print(f"{PICTURE}: {PICTURE.stat().st_size} bytes")


def write_page(folder: Path) -> Path:
    """Write the model's program and its page, and return the page."""
    task = TASKS[MODEL]
    torch.manual_seed(0)
    model, inputs = task.model().eval(), task.inputs()
    with torch.no_grad():
        (lowered,) = capture(lambda: model(**inputs).logits, ())
    # Places in installed packages are shown as those of any machine.
    packages = f"{Path(transformers.__file__).parents[1]}/"
    text = format_program(lowered.program).replace(packages, "")
    arguments = ["memory", f"{MODEL}.wir", "--html", "page.html"]
    with chdir(folder):
        Path(f"{MODEL}.wir").write_text(text)
        result = CliRunner().invoke(wrapperir, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder / "page.html"


def take(page: Page) -> None:
    """Show the last version, hover a large buffer at the peak, and take the picture."""
    page.locator(".version").last.click()
    alive = page.locator("rect.buffer.alive").all()
    boxes = [(rectangle, rectangle.bounding_box()) for rectangle in alive]
    area = {r: box["width"] * box["height"] for r, box in boxes if box is not None}
    max(area, key=lambda rectangle: area[rectangle]).hover()
    page.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
