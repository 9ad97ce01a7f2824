"""Tests are skipped, with the reason, where the device cannot be built."""

import sys
from pathlib import Path

import pytest
import torch

from wrapperir.diagnostics import DiagnosticError
from wrapperir.kernels import find_compiler
from wrapperir.plugin import plugin_manager

sys.path.insert(0, str(Path(__file__).parent))


def _missing() -> str | None:
    """Return what the device needs and this machine lacks."""
    interface = Path(torch.__file__).parent / "include" / "ATen/core/GraphImplInterface.h"
    if not interface.is_file():
        return "PyTorch before 2.13 has no graphs of other devices than CUDA's"
    try:
        find_compiler()
    except DiagnosticError as error:
        return error.diagnostics[0].message
    return None


MISSING = _missing()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip all tests where the device cannot be built."""
    for item in items:
        if MISSING is not None:
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """Add the device, and have the plugin there where it is not installed."""
    if MISSING is not None:
        return
    import wrapperir_sim.plugin

    wrapperir_sim.add_sim()
    if "sim" not in plugin_manager().emitters:
        plugin_manager().register(wrapperir_sim.plugin, "sim")
