"""What tests must know of the release of PyTorch that they run on."""

import pytest
import torch

BEFORE_2_12 = tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 12)
BEFORE_2_13 = tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 13)

NEEDS_MESSAGES = pytest.mark.skipif(
    BEFORE_2_13, reason="PyTorch's C interface of 2.11 returns no messages"
)
