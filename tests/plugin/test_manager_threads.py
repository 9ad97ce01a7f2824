"""A thread that needs plugins waits for the one that asks them."""

import threading
from collections.abc import Callable
from importlib import metadata
from types import ModuleType
from typing import Any, cast

import pytest

from wrapperir.ir import Program
from wrapperir.plugin import PluginManager, hookimpl


def unchanged(program: Program) -> Program:
    """Return the program as it is."""
    return program


class SlowPlugin:
    """Stops in its hook until it may go on."""

    def __init__(self) -> None:
        """Begin with a hook that nobody has called."""
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def wait(self) -> None:
        """Wait as the hook does."""
        self.begun.set()
        assert self.may_go_on.wait(60)

    @hookimpl
    def wrapperir_passes(self) -> dict[str, object]:
        """Provide a pass, late."""
        self.wait()
        return {"mine": unchanged}


class SlowEntryPoint:
    """An entry point whose module takes long to import."""

    name, dist = "slow", None

    def __init__(self, plugin: SlowPlugin) -> None:
        """Wait as the plugin does."""
        self._plugin = plugin

    def load(self) -> ModuleType:
        """Return an empty module, late."""
        self._plugin.wait()
        return ModuleType("slow")


def found_by_two(ask: Callable[[], bool], plugin: SlowPlugin) -> list[bool]:
    """Return what two threads found, the second while the first is in the plugin."""
    found: list[bool] = []

    def run() -> None:
        found.append(ask())

    first, second = threading.Thread(target=run), threading.Thread(target=run)
    first.start()
    assert plugin.begun.wait(60)
    second.start()
    second.join(0.2)  # a thread that does not wait has ended by now
    plugin.may_go_on.set()
    for thread in (first, second):
        thread.join(60)
    return found


@pytest.mark.parametrize("is_imported", [False, True])
def test_a_second_thread_finds_what_the_first_one_asks_for(is_imported: bool) -> None:
    plugin = SlowPlugin()
    if is_imported:
        manager = PluginManager(entry_points=())
        manager.register(plugin, "slow")

        def ask() -> bool:
            return manager.find_pass("mine") is not None
    else:
        entry_point = cast(metadata.EntryPoint, cast(Any, SlowEntryPoint(plugin)))
        manager = PluginManager(entry_points=[entry_point])

        def ask() -> bool:
            return len(manager.plugins) == 1

    assert found_by_two(ask, plugin) == [True, True]
