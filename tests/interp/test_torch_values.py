"""The mapping between a program's values and PyTorch's."""

import pytest
import torch

from wrapperir.emit.torch_dtypes import torch_device
from wrapperir.interp import DTYPES, TORCH_DTYPES
from wrapperir.interp.layout import Layout
from wrapperir.interp.torch_values import empty, python_value, torch_enum
from wrapperir.ir import (
    CPU,
    BufferRef,
    ComplexLiteral,
    Device,
    DType,
    EvaluationError,
    Symbol,
    TorchEnum,
)


@pytest.mark.parametrize("dtype", list(DType))
def test_every_element_type_has_its_torch_dtype(dtype: DType) -> None:
    found = TORCH_DTYPES[dtype]
    assert DTYPES[found] is dtype
    assert found.itemsize == dtype.itemsize


def test_devices() -> None:
    assert torch_device(Device("cuda", 1)) == torch.device("cuda:1")
    assert torch_device(CPU) == torch.device("cpu")
    with pytest.raises(ValueError, match="no device nonesuch"):
        torch_device(Device("nonesuch"))


@pytest.mark.parametrize("kind", ["layout", "memory_format", "__class__"])
def test_unknown_enums(kind: str) -> None:
    with pytest.raises(ValueError, match="torch has no"):
        torch_enum(TorchEnum(kind, "__class__"))


def test_arguments() -> None:
    names = {"a": torch.ones(1)}
    arguments = (
        BufferRef("a"),
        Symbol("s") * 2,
        True,
        "mean",
        DType.BF16,
        CPU,
        TorchEnum("layout", "strided"),
        ComplexLiteral(1.0, -1.0),
        (1, None, (BufferRef("a"),)),
        None,
        2.5,
    )
    assert python_value(arguments, {"s": 4}, names.__getitem__) == [
        names["a"],
        8,
        True,
        "mean",
        torch.bfloat16,
        torch.device("cpu"),
        torch.strided,
        1 - 1j,
        [1, None, [names["a"]]],
        None,
        2.5,
    ]
    with pytest.raises(EvaluationError):
        python_value(Symbol("t"), {}, names.__getitem__)


def test_empty() -> None:
    tensor = empty(Layout(DType.C64, (2, 3), (1, 2), 0), CPU)
    assert tensor.dtype is torch.complex64
    assert (tensor.size(), tensor.stride()) == ((2, 3), (1, 2))
