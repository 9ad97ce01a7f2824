"""Tests that need an OpenCL device are skipped, with the reason, where there is none."""

import ctypes
import ctypes.util
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def _missing() -> str | None:
    """Return what a run needs and this machine lacks."""
    if shutil.which("cc") is None:
        return "there is no C compiler"
    if not any(
        Path(folder, "CL/cl.h").is_file()
        for folder in ("/usr/include", "/usr/local/include")
    ):
        return "the headers of OpenCL are missing: apt-get install ocl-icd-opencl-dev"
    name = ctypes.util.find_library("OpenCL")
    if name is None:
        return "libOpenCL is missing: apt-get install ocl-icd-opencl-dev"
    count = ctypes.c_uint(0)
    ctypes.CDLL(name).clGetPlatformIDs(0, None, ctypes.byref(count))
    if not count.value:
        return "there is no OpenCL platform: apt-get install pocl-opencl-icd"
    return None


MISSING = _missing()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests marked ``device`` where no OpenCL device is, and leave out sweeps."""
    if not config.getoption("markexpr"):
        config.hook.pytest_deselected(items=[x for x in items if "sweep" in x.keywords])
        items[:] = [item for item in items if "sweep" not in item.keywords]
    for item in items:
        if MISSING is not None and "device" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=MISSING))


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "device: needs an OpenCL platform and a C compiler")
    config.addinivalue_line("markers", "sweep: takes long; pytest -m sweep runs it")
