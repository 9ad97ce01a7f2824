"""Sphinx configuration."""

import sys
from pathlib import Path

import wrapperir

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "wrapperir"
author = "The wrapperir authors"
copyright = "2026, the wrapperir authors"
release = wrapperir.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "wrapperir"
autodoc_typehints_format = "short"
# Signatures name what is imported for type checkers only.
autodoc_use_type_comments = False
# `wir` blocks leave out lines, and `console` blocks hold long paths: no warning is due.
suppress_warnings = ["misc.highlighting_failure"]


def write_api_pages(app):
    """Write a page for each public module, which autodoc fills from docstrings."""
    from public_api import MODULES

    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    pages = {folder / f"{module}.rst": module for module in MODULES}
    for page in set(folder.glob("*.rst")) - pages.keys():  # of a module that is gone
        page.unlink()
    for page, module in pages.items():
        text = api_page(module)
        if not page.exists() or page.read_text() != text:  # unchanged pages are not built
            page.write_text(text)


def api_page(module):
    """Return the page of a module; short names of another module's are links."""
    import importlib

    from public_api import first_home, public_names

    names = public_names(module)
    loaded = vars(importlib.import_module(module))
    late = [name for name in names if name not in loaded]
    shown = ", ".join(name for name in names if name in loaded)
    text = f"{module}\n{'=' * len(module)}\n\n.. automodule:: {module}\n"
    text += f"   :members: {shown}\n\n" if shown else "\n"
    homes = {name: first_home(module, name) for name in late}
    links = [f"{homes[name]}.{name}" for name in late if homes[name] != module]
    text += "".join(f"- :py:obj:`{link}`\n" for link in links)
    own = [name for name in late if homes[name] == module]
    return text + "".join(f"\n.. autofunction:: {module}.{name}\n" for name in own)


def setup(app):
    """Highlight the text form; write the pages of the API."""
    from wrapperir.editor.lexer import WirLexer

    app.add_lexer("wir", WirLexer)
    app.connect("builder-inited", write_api_pages)
