"""Random numbers are the same in each run, and what is scheduled is checked."""

import pytest
import torch

from tests.lowering.checked_lowering import checked_lowering as checked_lowering


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(2)
