"""What Inductor compiles and this backend still refuses, with its code."""

from typing import Any

import pytest
import torch

from tests.backend.test_constructs import Function
from tests.torch_release import BEFORE_2_13


def printing(x: torch.Tensor) -> torch.Tensor:
    operators: Any = torch.ops.higher_order
    operators.print("x is {x}", x=x)
    return x + 1


def quantized(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    return result


@pytest.mark.parametrize(
    ("function", "frontend", "code"),
    [
        (printing, "inductor", "WIR652"),
        (printing, "lowering", "WIR602"),
        pytest.param(
            *(quantized, "lowering", "WIR603"),
            marks=pytest.mark.skipif(
                BEFORE_2_13, reason="Dynamo traces no quantization before 2.13"
            ),
        ),
    ],
)
def test_a_feature_is_refused(function: Function, frontend: str, code: str) -> None:
    torch._dynamo.reset()
    options: Any = {"frontend": frontend}
    refused = torch.compile(function, backend="wrapperir", options=options)
    with pytest.raises(Exception, match=code) as caught:
        refused(torch.ones(3))
    assert __file__ in str(caught.value)  # the user's line


def test_replaced_data_is_refused() -> None:
    weight = torch.nn.Parameter(torch.ones(3))

    def replaced(x: torch.Tensor) -> torch.Tensor:
        weight.data = weight.data + x
        return weight.sum()

    torch._dynamo.reset()
    options: Any = {"frontend": "lowering"}
    refused = torch.compile(replaced, backend="wrapperir", options=options)
    with pytest.raises(Exception, match="WIR602") as caught:
        refused(torch.ones(3))
    assert __file__ in str(caught.value)
