"""Writes pages that need no network: one file, which opens from disk.

A page's data is JSON in an element that no browser runs; its script writes text only as
text.  A content security policy lets nothing run or load but the page's own style and
script, by their hashes.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TypeAlias, Union

from attrs import frozen

from wrapperir.report.text import visible

PageData: TypeAlias = Union[
    str, int, float, Sequence["PageData"], Mapping[str, "PageData"], None
]


@frozen
class PagePart:
    """A file of a page, in the folder ``page`` of a package."""

    name: str
    package: str = "wrapperir.report"

    def read(self) -> str:
        """Return its text."""
        folder = resources.files(self.package).joinpath("page")
        return folder.joinpath(self.name).read_text("utf-8")


def format_page(
    template: PagePart,
    *,
    styles: Sequence[PagePart],
    scripts: Sequence[PagePart],
    data: PageData,
    **values: object,
) -> str:
    """Return the page of a template, which is given values to show.

    The parts must be files of our packages: they are not escaped.  Jinja2 is loaded here.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    style = "\n".join(part.read() for part in styles)
    script = "\n".join(part.read() for part in scripts)
    environment = Environment(
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(template.read()).render(
        **values,
        style=Markup(style),  # noqa: S704  # parts of our packages, not of the program
        style_hash=_hash(style),
        script=Markup(script),  # noqa: S704
        script_hash=_hash(script),
        data=Markup(_in_element(data)),  # noqa: S704
    )


def _shown(value: object) -> object:
    """Return what a template writes of a value; markup is of our packages alone."""
    return value if hasattr(value, "__html__") else visible(str(value))


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _in_element(data: object) -> str:
    """Return JSON that neither ends the element it is in nor begins a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
