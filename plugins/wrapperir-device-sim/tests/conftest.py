"""Tests are skipped, with the reason, where there is no C++ compiler."""

import sys
from pathlib import Path

import pytest

from wrapperir.diagnostics import DiagnosticError
from wrapperir.kernels import find_compiler
from wrapperir.plugin import plugin_manager

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip all tests without a compiler."""
    try:
        find_compiler()
    except DiagnosticError as error:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=error.diagnostics[0].message))


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """Add the device, and have the plugin there where it is not installed."""
    import wrapperir_sim.plugin

    wrapperir_sim.add_sim()
    if "sim" not in plugin_manager().emitters:
        plugin_manager().register(wrapperir_sim.plugin, "sim")
