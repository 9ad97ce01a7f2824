"""Writes a memory report as one page that needs no network.

The page's data is JSON in an element that no browser runs; its script writes text only as
text.  A content security policy lets nothing run or load but the page's own style and
script, by their hashes.
"""

import base64
import hashlib
import json
from importlib import resources

from wrapperir.report.byte_counts import format_bytes
from wrapperir.report.page_data import page_data
from wrapperir.report.text import UNCOUNTED, summary
from wrapperir.report.timeline import BufferKind, MemoryReport
from wrapperir.report.visible import visible

_SCRIPTS = ("format.js", "charts.js", "listing.js", "page.js")


def format_html(report: MemoryReport) -> str:
    """Return the page.  Jinja2 is loaded here."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    style = _part("page.css")
    script = "\n".join(_part(name) for name in _SCRIPTS)
    environment = Environment(
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = environment.from_string(_part("page.html.j2"))
    return template.render(
        report=report,
        summary=summary,
        uncounted=UNCOUNTED,
        format_bytes=format_bytes,
        kinds=list(enumerate(BufferKind)),
        style=Markup(style),  # noqa: S704  # parts of this package, not of the program
        style_hash=_hash(style),
        script=Markup(script),  # noqa: S704
        script_hash=_hash(script),
        data=Markup(_in_element(page_data(report))),  # noqa: S704
    )


def _shown(value: object) -> object:
    """Return what a template writes of a value; markup is of this package alone."""
    return value if hasattr(value, "__html__") else visible(str(value))


def _part(name: str) -> str:
    return resources.files("wrapperir.report").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _in_element(data: object) -> str:
    """Return JSON that neither ends the element it is in nor begins a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
