"""The devices that features are for."""

from collections.abc import Generator

import pytest
import torch

_ON_A_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(
    params=[torch.device("cpu"), pytest.param(torch.device("cuda"), marks=_ON_A_GPU)],
    ids=str,
)
def device(request: pytest.FixtureRequest) -> torch.device:
    """Return the device that a feature is tested on."""
    assert isinstance(request.param, torch.device)
    return request.param


@pytest.fixture
def deterministic() -> Generator[None]:
    """Have PyTorch fall back to operators that sum in one order."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
