"""Plugins: the hooks they implement and the manager that finds them."""

from wrapperir.plugin.hookspecs import hookimpl
from wrapperir.plugin.manager import BrokenPlugin, Plugin, PluginManager, plugin_manager

__all__ = [
    "BrokenPlugin",
    "Plugin",
    "PluginManager",
    "hookimpl",
    "plugin_manager",
]
