"""Tensors of oneDNN's own layout, which have no strides, are refused."""

import inspect
from typing import Any

import pytest
import torch


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


ADD_LINE = inspect.getsourcelines(add_one)[1] + 1


@pytest.mark.parametrize("frontend", ["inductor", "lowering"])
def test_an_input_of_onednn_is_refused(frontend: str) -> None:
    torch._dynamo.reset()
    options: Any = {"frontend": frontend}
    function = torch.compile(add_one, backend="wrapperir", options=options)
    message = rf"WIR604: .*_mkldnn.*test_opaque_inputs.py:{ADD_LINE} \(call to_dense"
    with pytest.raises(Exception, match=message):
        function(torch.ones(2, 3).to_mkldnn())
