"""Arguments of operator calls as FX takes them, and the operators themselves."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import functools
from collections.abc import Mapping

import torch
from torch._ops import OpOverload
from torch.fx.node import Argument as FxArgument

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit.torch_dtypes import TORCH_DTYPES
from wrapperir.ir.line import Argument, BufferRef, ComplexLiteral, TorchEnum
from wrapperir.ir.types import Device, DType
from wrapperir_fx.numbers import Numbers
from wrapperir_fx.values import Value


@functools.cache
def torch_dtype(dtype: DType) -> torch.dtype:
    """Return torch's element type."""
    found: object = getattr(torch, TORCH_DTYPES[dtype])
    assert isinstance(found, torch.dtype)
    return found


@functools.cache
def torch_device(device: Device) -> torch.device:
    """Return torch's device; an index left out stays so."""
    if device.index is None:
        return torch.device(device.kind)
    return torch.device(device.kind, device.index)


def find_operator(name: str) -> OpOverload:
    """Return the operator of a name such as ``aten.mm.out``.

    Raises:
        DiagnosticError: WIR705, none is registered with PyTorch.
    """
    found: object = torch.ops
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except (AttributeError, RuntimeError):
            found = None
            break
    if isinstance(found, OpOverload):
        return found
    raise DiagnosticError(
        Diagnostic(
            code=Code.UNSUPPORTED_FEATURE,
            message=f"no operator {name[:80]!a} is registered with PyTorch",
            hint="import the library that registers it; names are namespace.name.overload",
        )
    )


class Arguments:
    """Makes arguments of the values and numbers of one graph."""

    def __init__(self, values: Mapping[str, Value], numbers: Numbers) -> None:
        """Look names up in ``values``."""
        self._values = values
        self._numbers = numbers

    def of(self, argument: Argument) -> FxArgument:
        """Return an argument of an operator, or an output of a program.

        Raises:
            DiagnosticError: WIR705, it names an enum that torch lacks.
        """
        match argument:
            case BufferRef():
                return self._values[argument.name].node
            case None | bool():
                return argument
            case DType():  # before str, of which it is a subclass
                return torch_dtype(argument)
            case str():
                return argument
            case tuple():
                return [self.of(item) for item in argument]
            case Device():
                return torch_device(argument)
            case TorchEnum():
                return _enum(argument)
            case ComplexLiteral(real, imaginary):
                return complex(real, imaginary)
            case _:
                return self._numbers.value(argument)


def _enum(value: TorchEnum) -> FxArgument:
    kinds = {"layout": torch.layout, "memory_format": torch.memory_format}
    found: object = getattr(torch, value.name, None)
    if value.kind in kinds and isinstance(found, kinds[value.kind]):
        return found
    raise DiagnosticError(
        Diagnostic(
            code=Code.UNSUPPORTED_FEATURE,
            message=f"torch has no {value.kind[:80]!a} named {value.name[:80]!a}",
        )
    )
