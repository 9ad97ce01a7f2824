"""Allocations and views in Python."""

from typing import LiteralString

from attrs import evolve

from wrapperir.emit import Fragment, fragment
from wrapperir.emit.python.expressions import ExpressionFormatter
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.emit.support import natural_alignment
from wrapperir.ir import Device, Expr, TensorType, add, mul, storage_extent, sub
from wrapperir_python.arguments import ArgumentFormatter


class MemoryFormatter:
    """Formats allocations and views with the cheapest call PyTorch has for each.

    ``current`` is the CUDA device that is current while the program runs.
    """

    def __init__(
        self,
        module: ModuleText,
        expressions: ExpressionFormatter,
        arguments: ArgumentFormatter,
        current: Device | None,
    ) -> None:
        """Use the names of ``module``."""
        self._module = module
        self._expressions = expressions
        self._arguments = arguments
        self._current = current

    def format_allocation(self, type: TensorType, *, in_call: bool = True) -> Fragment:
        """Return an uninitialised tensor of ``type``, in a storage that just holds it.

        Outside the call no CUDA device is current, so the device is named.
        """
        if type.offset != 0:
            reach = add(type.offset, storage_extent(type))
            storage = evolve(type, size=(reach,), stride=(1,), offset=0)
            room = self.format_allocation(storage, in_call=in_call)
            return self.format_view(room, storage, type)
        size = self._expressions.format_tuple(type.size)
        stride = self._expressions.format_tuple(type.stride)
        dtype = self._arguments.format_dtype(type.dtype)
        device = type.device
        if type.alignment is not None and type.alignment > natural_alignment(device):
            extent = self._expressions.format_index(storage_extent(type))
            return fragment(
                "{}({}, {}, {}, {}, {}, {})",
                self._module.need("empty_aligned"),
                *(size, stride, dtype, extent),
                self._arguments.format_device(device),
                self._expressions.format_index(type.alignment),
            )
        if device.kind == "cpu":
            name: LiteralString = "empty_strided_cpu"
            if type.pinned:
                name = "empty_strided_cpu_pinned"
            return fragment("{}({}, {}, {})", self._guard(name), size, stride, dtype)
        if device.kind == "cuda" and in_call and device.index in (None, self.current_index):
            allocate = self._guard("empty_strided_cuda")
            return fragment("{}({}, {}, {})", allocate, size, stride, dtype)
        return fragment(
            "{}({}, {}, dtype={}, device={})",
            self._module.bind(fragment("torch.empty_strided"), "empty_strided"),
            *(size, stride, dtype, self._arguments.format_device(device)),
        )

    def format_view(self, source: Fragment, old: TensorType, new: TensorType) -> Fragment:
        """Return ``source``, a tensor of type ``old``, seen as ``new``.

        Offsets of types count from the start of the storage.  PyTorch's call takes a
        step from the source's own offset, which is also right where the tensor at run
        time begins elsewhere than its type says, as an input that is a view may.
        """
        size = self._expressions.format_tuple(new.size)
        stride = self._expressions.format_tuple(new.stride)
        if old.dtype.itemsize != new.dtype.itemsize:
            step = _difference(
                mul(new.offset, new.dtype.itemsize), mul(old.offset, old.dtype.itemsize)
            )
            return fragment(
                "{}({}, {}, {}, {}, {})",
                self._module.need("view_bytes"),
                *(source, size, stride, self._arguments.format_dtype(new.dtype)),
                self._expressions.format_index(step),
            )
        if old.dtype is not new.dtype:
            dtype = self._arguments.format_dtype(new.dtype)
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

    @property
    def current_index(self) -> int | None:
        """The index of the CUDA device that is current in the call, if there is one."""
        return None if self._current is None else self._current.index


def _difference(left: Expr, right: Expr) -> Expr:
    return 0 if left == right else sub(left, right)
