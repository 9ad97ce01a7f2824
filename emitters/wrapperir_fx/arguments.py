"""Arguments of operators and outputs, as FX takes them."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false

from collections.abc import Callable, Mapping

import torch
from torch.fx.node import Argument as FxArgument

from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.ir import Argument, BufferRef, ComplexLiteral, Device, DType, TorchEnum
from wrapperir_fx.number_nodes import NumberNodes
from wrapperir_fx.values import Value


class Arguments:
    """Makes arguments of the values and numbers of one graph.

    What PyTorch lacks is given to ``report``, with what it is and its name.
    """

    def __init__(
        self,
        values: Mapping[str, Value],
        numbers: NumberNodes,
        report: Callable[[str, str], None],
    ) -> None:
        """Look names up in ``values``."""
        self._values = values
        self._numbers = numbers
        self._report = report

    def of(self, argument: Argument) -> FxArgument:
        """Return an argument of an operator, or an output of a program."""
        match argument:
            case BufferRef():
                return self._values[argument.name].node
            case None | int() | float():
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
                return self._enum(argument)
            case ComplexLiteral(real, imaginary):
                return self._numbers.complex(real, imaginary)
            case _:
                return self._numbers.value(argument)

    def _enum(self, value: TorchEnum) -> FxArgument:
        found: object = getattr(torch, value.name, None)
        if value.kind == "layout" and isinstance(found, torch.layout):
            return found
        if value.kind == "memory_format" and isinstance(found, torch.memory_format):
            return found
        name = value.name[:80]
        self._report(f"torch has no {value.kind[:80]!a} named {name!a}", name)
        return None
