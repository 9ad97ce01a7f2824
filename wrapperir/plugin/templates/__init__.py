"""Templates of plugins: distributions with a small emitter that works."""

from wrapperir.plugin.templates.write import TARGETS, write_plugin

__all__ = ["TARGETS", "write_plugin"]
