"""Arguments of operator calls, allocations and views in Python."""

from typing import LiteralString

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.python.expressions import (
    PythonExpressions,
    format_constant,
    format_float,
    format_int,
    format_string,
    format_tuple,
)
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.emit.support import natural_alignment


class ArgumentFormatter:
    """Formats arguments, and allocations and views with PyTorch's cheapest calls.

    Dtypes and devices become globals of the module.  ``current_gpu`` is the index of the
    CUDA device that is current while the program runs, ``None`` for any.
    """

    def __init__(
        self,
        module: ModuleText,
        expressions: PythonExpressions,
        current_gpu: int | None,
    ) -> None:
        """Use the names of ``module``."""
        self.current_gpu = current_gpu
        self._module = module
        self._values = module.values
        self._expressions = expressions

    def format_argument(self, argument: wir.Argument) -> Fragment:
        """Return the Python of one argument.

        Raises:
            DiagnosticError: it names an enum that torch lacks.
        """
        match argument:
            case wir.BufferRef():
                return self._values[argument.name]
            case None | bool():
                return format_constant(argument)
            case wir.DType():  # before str, its base class
                return self.format_dtype(argument)
            case str():
                return format_string(argument)
            case tuple():
                return self._format_sequence(argument)
            case wir.Device():
                return self.format_device(argument)
            case wir.TorchEnum():
                return self._format_enum(argument)
            case wir.ComplexLiteral(real, imaginary):
                parts = format_float(real), format_float(imaginary)
                return fragment("complex({}, {})", *parts)
            case int() | float() | wir.Symbol() | wir.Operation():
                return self._expressions.format_value(argument)

    def format_dtype(self, dtype: wir.DType) -> Fragment:
        """Return the global that holds a ``torch.dtype``."""
        name = dtype.torch_name
        return self._module.bind(fragment("torch.{}", Fragment(name)), name)

    def format_device(self, device: wir.Device) -> Fragment:
        """Return the global that holds a ``torch.device``."""
        kind = format_string(device.kind)
        if device.index is None:
            return self._module.bind(fragment("torch.device({})", kind), "device")
        made = fragment("torch.device({}, {})", kind, format_int(device.index))
        return self._module.bind(made, f"device_{device.index}")

    def _format_sequence(self, items: tuple[wir.Argument, ...]) -> Fragment:
        parts = [self.format_argument(item) for item in items]
        # A tuple of numbers is a constant that Python makes once.
        if all(isinstance(item, int | float) for item in items):
            return format_tuple(parts)
        return fragment("[{}]", joined(", ", parts))

    def _format_enum(self, value: wir.TorchEnum) -> Fragment:
        if value.name not in wir.TORCH_ENUM_NAMES.get(value.kind, ()):
            raise Code.UNSUPPORTED_FEATURE.error(
                f"torch has no {value.kind[:80]!a} named {value.name[:80]!a}"
            )
        name = Fragment(value.name)
        return self._module.bind(fragment("torch.{}", name), value.name)

    def format_allocation(self, type: wir.TensorType, *, in_call: bool = True) -> Fragment:
        """Return an uninitialised tensor of ``type``, in a storage that just holds it.

        Outside the call no CUDA device is current, so the device is named.
        """
        if type.offset != 0:
            reach = wir.add(type.offset, wir.storage_extent(type))
            storage = evolve(type, size=(reach,), stride=(1,), offset=0)
            room = self.format_allocation(storage, in_call=in_call)
            return self.format_view(room, storage, type)
        size = self._expressions.format_tuple(type.size)
        stride = self._expressions.format_tuple(type.stride)
        dtype = self.format_dtype(type.dtype)
        device = type.device
        if type.alignment is not None and type.alignment > natural_alignment(device):
            extent = self._expressions.format_index(wir.storage_extent(type))
            return fragment(
                "{}({}, {}, {}, {}, {}, {})",
                self._module.need("empty_aligned"),
                *(size, stride, dtype, extent),
                self.format_device(device),
                self._expressions.format_index(type.alignment),
            )
        if device.kind == "cpu":
            name: LiteralString = "empty_strided_cpu"
            if type.pinned:
                name = "empty_strided_cpu_pinned"
            return fragment("{}({}, {}, {})", self._guard(name), size, stride, dtype)
        if device.kind == "cuda" and in_call and device.index in (None, self.current_gpu):
            allocate = self._guard("empty_strided_cuda")
            return fragment("{}({}, {}, {})", allocate, size, stride, dtype)
        return fragment(
            "{}({}, {}, dtype={}, device={})",
            self._module.bind(fragment("torch.empty_strided"), "empty_strided"),
            *(size, stride, dtype, self.format_device(device)),
        )

    def format_view(
        self, source: Fragment, old: wir.TensorType, new: wir.TensorType
    ) -> Fragment:
        """Return ``source``, a tensor of type ``old``, seen as ``new``.

        Offsets of types count from the start of the storage.  PyTorch's call takes a
        step from the source's own offset, which is also right where the tensor at run
        time begins elsewhere than its type says, as an input that is a view may.
        """
        size = self._expressions.format_tuple(new.size)
        stride = self._expressions.format_tuple(new.stride)
        if old.dtype.itemsize != new.dtype.itemsize:
            step = _difference(
                wir.mul(new.offset, new.dtype.itemsize),
                wir.mul(old.offset, old.dtype.itemsize),
            )
            return fragment(
                "{}({}, {}, {}, {}, {})",
                self._module.need("view_bytes"),
                *(source, size, stride, self.format_dtype(new.dtype)),
                self._expressions.format_index(step),
            )
        if old.dtype is not new.dtype:
            dtype = self.format_dtype(new.dtype)
            source = fragment("{}.view({})", source, dtype)
        step = _difference(new.offset, old.offset)
        if step == 0 and old.size == new.size and old.stride == new.stride:
            return source
        return fragment(
            "{}({}, {}, {}, {})",
            self._guard("reinterpret_tensor"),
            *(source, size, stride, self._expressions.format_index(step)),
        )

    def _guard(self, name: LiteralString) -> Fragment:
        # Inductor's own wrapper calls these: they skip dispatch and argument parsing.
        return self._module.bind(
            fragment("torch._C._dynamo.guards._{}", fragment(name)), name
        )


def _difference(left: wir.Expr, right: wir.Expr) -> wir.Expr:
    return 0 if left == right else wir.sub(left, right)
