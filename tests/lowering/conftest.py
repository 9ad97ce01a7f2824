"""Random numbers of these tests are the same in each run."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(2)
