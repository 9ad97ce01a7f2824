"""Arguments of operator calls in Python."""

from collections.abc import Mapping

from wrapperir.diagnostics import Code
from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.python.expressions import ExpressionFormatter, format_tuple
from wrapperir.emit.python.literals import (
    format_constant,
    format_float,
    format_int,
    format_string,
)
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.ir import Argument, BufferRef, ComplexLiteral, Device, DType, TorchEnum

_ENUMS: Mapping[str, frozenset[str]] = {
    "layout": frozenset(
        {"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"}
    ),
    "memory_format": frozenset(
        {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"}
    ),
}


class ArgumentFormatter:
    """Formats arguments; dtypes and devices become globals of the module."""

    def __init__(self, module: ModuleText, expressions: ExpressionFormatter) -> None:
        """Use the names of ``module``."""
        self._module = module
        self._values = module.values
        self._expressions = expressions

    def format_argument(self, argument: Argument) -> Fragment:
        """Return the Python of one argument.

        Raises:
            DiagnosticError: it names an enum that torch lacks.
        """
        match argument:
            case BufferRef():
                return self._values[argument.name]
            case None | bool():
                return format_constant(argument)
            case DType():  # before str, of which it is a subclass
                return self.format_dtype(argument)
            case str():
                return format_string(argument)
            case tuple():
                return self._format_sequence(argument)
            case Device():
                return self.format_device(argument)
            case TorchEnum():
                return self._format_enum(argument)
            case ComplexLiteral(real, imaginary):
                parts = format_float(real), format_float(imaginary)
                return fragment("complex({}, {})", *parts)
            case _:
                return self._expressions.format_value(argument)

    def format_dtype(self, dtype: DType) -> Fragment:
        """Return the global that holds a ``torch.dtype``."""
        name = dtype.torch_name
        return self._module.bind(fragment("torch.{}", Fragment(name)), name)

    def format_device(self, device: Device) -> Fragment:
        """Return the global that holds a ``torch.device``."""
        kind = format_string(device.kind)
        if device.index is None:
            return self._module.bind(fragment("torch.device({})", kind), "device")
        made = fragment("torch.device({}, {})", kind, format_int(device.index))
        return self._module.bind(made, f"device_{device.index}")

    def _format_sequence(self, items: tuple[Argument, ...]) -> Fragment:
        parts = [self.format_argument(item) for item in items]
        # A tuple of numbers is a constant that Python makes once.
        if all(isinstance(item, int | float) for item in items):
            return format_tuple(parts)
        return fragment("[{}]", joined(", ", parts))

    def _format_enum(self, value: TorchEnum) -> Fragment:
        if value.name not in _ENUMS.get(value.kind, ()):
            raise Code.UNSUPPORTED_FEATURE.error(
                f"torch has no {value.kind[:80]!a} named {value.name[:80]!a}"
            )
        name = Fragment(value.name)
        return self._module.bind(fragment("torch.{}", name), value.name)
