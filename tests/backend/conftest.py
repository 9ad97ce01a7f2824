"""Kernels of the CPU that take no time to build."""

from collections.abc import Iterator

import pytest
from torch._inductor import config


@pytest.fixture
def quick_kernels(emitter: str) -> Iterator[None]:
    """Have Inductor write Triton for the CPU, but for C++, which takes C++ kernels only."""
    with config.patch(cpu_backend="cpp" if emitter == "cpp" else "triton"):
        yield
