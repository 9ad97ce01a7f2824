"""The mapping between a program's values and PyTorch's."""

import pytest
import torch

from wrapperir.emit.torch_dtypes import element_type, torch_device, torch_dtype
from wrapperir.interp.extern import python_value
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
    found = torch_dtype(dtype)
    assert element_type(found) is dtype
    assert found.itemsize == dtype.itemsize


def test_devices() -> None:
    assert torch_device(Device("cuda", 1)) == torch.device("cuda:1")
    assert torch_device(CPU) == torch.device("cpu")
    with pytest.raises(ValueError, match="no device nonesuch"):
        torch_device(Device("nonesuch"))


@pytest.mark.parametrize("kind", ["layout", "memory_format", "__class__"])
def test_unknown_enums(kind: str) -> None:
    with pytest.raises(ValueError, match="torch has no"):
        python_value(TorchEnum(kind, "__class__"), {}, str)


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
