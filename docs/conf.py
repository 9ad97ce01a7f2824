"""Sphinx configuration."""

import wrapperir

project = "wrapperir"
author = "The wrapperir authors"
copyright = "2026, the wrapperir authors"
release = wrapperir.__version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "wrapperir"
# `wir` is our text form and `console` blocks hold long paths: neither is worth a warning.
suppress_warnings = ["misc.highlighting_failure"]


def setup(app):
    """Highlight the text form as LLVM's, whose spelling is near enough."""
    from pygments.lexers.asm import LlvmLexer

    app.add_lexer("wir", LlvmLexer)
