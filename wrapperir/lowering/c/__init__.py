"""Parts of renderers for languages like C."""
