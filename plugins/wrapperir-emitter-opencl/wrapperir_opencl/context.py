"""The context of emission of a C program: names, numbers of kernels and streams, steps."""

from collections.abc import Mapping
from typing import LiteralString

from wrapperir import ir as wir
from wrapperir.emit import Fragment, Namespace, NameTable, SourceWriter, fragment
from wrapperir.emit.c.expressions import C_KINDS, format_int
from wrapperir.emit.context import Emission, ProgramFacts
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.support import unsupported_memory
from wrapperir.ir.effects import Origin
from wrapperir_opencl.expressions import RunExpressions, reserved_names

DEVICE = "opencl"
"""The kind of device that programs run on."""
ALIGNMENT = 128
"""Bytes to which every OpenCL implementation of the full profile aligns buffers."""


class CNames(NameTable):
    """Identifiers of C: none is like a macro of the system's headers."""

    def claim(self, name: str) -> Fragment:
        """Return an identifier; ``v_`` precedes capitals and an underscore.

        Raises:
            DiagnosticError: ``name`` is not an identifier.
        """
        return super().claim(f"v_{name}" if name.isupper() or name[:1] == "_" else name)


class OpenclContext(Emission):
    """The writer of the program's function, and the C of names.

    A tensor or pool is a variable of type ``wir_tensor``; a number is one of ``int64_t`` or
    ``double``.  ``kernels``, ``queues`` and ``events`` number kernels, streams and events.
    """

    def __init__(self, facts: ProgramFacts) -> None:
        """Begin with an empty function."""
        super().__init__(facts)
        self.writer = SourceWriter(comment_prefix="// ", indentation="  ")
        self.names = CNames(reserved_names())
        self.values = Namespace(self.names)
        self.symbols = Namespace(self.names)
        self.expressions = RunExpressions(self.symbols, facts.kinds, self.report)
        called = facts.kernel_devices
        definitions = [d for d in facts.definitions.values() if d.name in called]
        self.kernels = {d.name: n for n, d in enumerate(definitions)}
        streams = {x.stream.number for x in facts.effects if x.stream is not None}
        self.queues: Mapping[int, int] = {
            number: n for n, number in enumerate(sorted({0} | streams))
        }
        made = [d for effects in facts.effects for d in effects.definitions]
        events = [d.name for d in made if isinstance(d.type, wir.EventType)]
        self.events: Mapping[str, int] = {name: n for n, name in enumerate(events)}
        kept = [d.name for d in made if d.origin is Origin.PROGRAM]
        self.kept: Mapping[str, int] = {name: n for n, name in enumerate(kept)}

    def emit_step(self, template: LiteralString, *parts: Fragment) -> None:
        """Append a call that may fail; the run then ends."""
        self.writer.emit_line("if (!{}) goto done;", fragment(template, *parts))

    def declare(self, name: str, type: wir.ValueType) -> Fragment:
        """Append the declaration of a value's variable, and return its name."""
        variable = self.values[name]
        if isinstance(type, wir.TensorType | wir.PoolType):
            self.writer.emit_line("wir_tensor {} = {{0}};", variable)
        elif isinstance(type, wir.ScalarType):
            spelled = fragment(C_KINDS[kind_of(type.dtype)])
            self.writer.emit_line("{} {} = 0;", spelled, variable)
        else:
            self.report(f"%{name} is neither a tensor nor a number", name)
        return variable

    def format_place(self, type: wir.TensorType | wir.PoolType) -> Fragment:
        """Return whether memory is the host's: an argument of C functions."""
        return fragment("0" if type.device.kind == DEVICE else "1")

    def format_offset(self, type: wir.TensorType) -> Fragment:
        """Return the bytes from the begin of a tensor's storage to its first element."""
        offset = wir.mul(type.offset, type.dtype.itemsize)
        return self.expressions.format_index(offset)

    def format_layout(self, type: wir.TensorType) -> Fragment:
        """Return three arguments: the rank, the sizes and the strides of a tensor."""
        return fragment(
            "{}, {}, {}",
            Fragment(str(len(type.size))),
            self.expressions.format_array(type.size),
            self.expressions.format_array(type.stride),
        )

    def format_span(self, type: wir.TensorType) -> Fragment:
        """Return the bytes from a tensor's first element to the end of its last."""
        item = format_int(type.dtype.itemsize)
        return fragment("wir_span(r, {}, {})", item, self.format_layout(type))

    def check_memory(self, type: wir.TensorType | wir.PoolType) -> None:
        """Refuse the current line if memory of this type cannot be allocated."""
        for message, subject in unsupported_memory(type):
            self.report(message, subject)
        if type.pinned:
            self.report("no memory is pinned")
        if isinstance(type, wir.TensorType) and len(type.size) > 64:
            self.report("a tensor has more than 64 dimensions")
        if type.device.index not in (None, 0):
            self.report("there is one device, with index 0", str(type.device))

    def operand(self, argument: wir.Argument, type: wir.ValueType) -> Fragment:
        """Return a number for a parameter, a result or an output of a scalar type."""
        assert isinstance(type, wir.ScalarType)
        if isinstance(argument, wir.BufferRef):
            return self.values[argument.name]
        assert isinstance(argument, int | float | wir.Symbol | wir.Operation)  # verified
        return self.expressions.format_number(argument, kind_of(type.dtype))
