"""Models whose parameters Inductor freezes."""

from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import config

from wrapperir.frontend.inductor import capture

onednn: Any = torch.backends.mkldnn


@pytest.mark.skipif(not onednn.is_available(), reason="this PyTorch has no oneDNN")
def test_constants_in_the_layout_of_onednn_are_captured() -> None:
    """They have no storage that Python can copy."""
    torch._dynamo.reset()
    model = nn.Conv2d(3, 4, 3).eval()
    with config.patch(freezing=True), torch.no_grad():
        (lowered,) = capture(model, (torch.randn(2, 3, 8, 8),))
    assert any(constant.is_mkldnn for constant in lowered.constants.values())
