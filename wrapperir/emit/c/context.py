"""The context of emission of a program in C or C++: names, numbers of things, and steps."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import LiteralString

from wrapperir import ir as wir
from wrapperir.emit.c.expressions import C_KINDS, RESERVED, CExpressions, format_int
from wrapperir.emit.context import Emission, ProgramFacts
from wrapperir.emit.number_kinds import as_parameter, kind_of
from wrapperir.emit.source_text import (
    Fragment,
    Namespace,
    NameTable,
    SourceWriter,
    fragment,
    joined,
)
from wrapperir.emit.support import unsupported_memory
from wrapperir.ir.effects import Origin

_OWN = frozenset({"r", "inputs", "outputs", "typeof", "typeof_unqual"})
"""Names of the program's function, and keywords of newer C."""
MOST_DIMENSIONS = 64


class CNames(NameTable):
    """Identifiers of C: none is like a macro of the system's headers."""

    def claim(self, name: str) -> Fragment:
        """Return an identifier; ``v_`` precedes capitals and an underscore.

        Raises:
            DiagnosticError: ``name`` is not an identifier.
        """
        return super().claim(f"v_{name}" if name.isupper() or name[:1] == "_" else name)


def source_writer() -> SourceWriter:
    """Return a writer of C."""
    return SourceWriter(comment_prefix="// ", indentation="  ")


class CContext(Emission):
    """The program's function in C, and the names in it.

    A tensor or pool is a variable of type ``wir_tensor``; a number is one of ``int64_t`` or
    ``double``.  Memory is on ``device``, where the driver allocates it, or on the CPU.
    ``kernels``, ``streams``, ``events`` and ``kept`` number the kernels that
    are called, the streams, the events, and the workspaces that the program keeps.

    ``writer`` has the function, ``head`` what is before the driver's header, and
    ``functions`` the names of functions that the emitter declares there.
    """

    def __init__(self, facts: ProgramFacts, device: str, used: frozenset[str]) -> None:
        """Begin with an empty function; ``used`` are the identifiers in the headers."""
        super().__init__(facts)
        self.device = device
        self.writer = source_writer()
        self.head = source_writer()
        self.names = CNames(RESERVED | _OWN | used)
        self.values = Namespace(self.names)
        self.symbols = Namespace(self.names)
        self.functions = Namespace(self.names)
        fault = fragment("&r->fault")
        self.expressions = CExpressions(self.symbols, facts.kinds, self.report, fault)
        called = facts.kernel_devices
        self.kernels: Mapping[str, int] = _numbered(
            d for d in facts.definitions if d in called
        )
        streams = {x.stream.number for x in facts.effects if x.stream is not None}
        self.streams: Mapping[int, int] = {
            number: n for n, number in enumerate(sorted({0} | streams))
        }
        made = [d for effects in facts.effects for d in effects.definitions]
        events = [d.name for d in made if isinstance(d.type, wir.EventType)]
        self.events: Mapping[str, int] = _numbered(events)
        kept = [d.name for d in made if d.origin is Origin.PROGRAM]
        self.kept: Mapping[str, int] = _numbered(kept)
        self._tables: dict[tuple[int, ...], Fragment] = {}

    def emit_step(self, template: LiteralString, *parts: Fragment) -> None:
        """Append a call that may fail; the run then ends."""
        self.writer.emit_line("if (!{}) return 0;", fragment(template, *parts))

    @contextmanager
    def braces(self, head: Fragment) -> Generator[None]:
        """Put braces after ``head`` around what is written inside."""
        self.writer.emit_line("{}{{", head)
        with self.writer.indented():
            yield
        self.writer.emit_line("}}")

    def declare(self, name: str, type: wir.ValueType) -> Fragment:
        """Append the declaration of a value's variable, and return its name."""
        variable = self.values[name]
        if isinstance(type, wir.TensorType | wir.PoolType):
            self.writer.emit_line("wir_tensor {} = wir_none();", variable)
        elif isinstance(type, wir.ScalarType):
            spelled = fragment(C_KINDS[kind_of(type.dtype)])
            self.writer.emit_line("{} {} = 0;", spelled, variable)
        else:
            self.report(f"%{name} is neither a tensor nor a number", name)
        return variable

    def is_copied(self, type: wir.TensorType) -> bool:
        """Say whether an input or output of a type is a copy on the device."""
        return type.device.kind == self.device != "cpu"

    def format_place(self, type: wir.TensorType | wir.PoolType) -> Fragment:
        """Return whether memory is the host's: an argument of C functions."""
        return fragment("0" if type.device.kind == self.device else "1")

    def format_offset(self, type: wir.TensorType) -> Fragment:
        """Return the bytes from the begin of a tensor's storage to its first element."""
        offset = wir.mul(type.offset, type.dtype.itemsize)
        return self.expressions.format_index(offset)

    def format_array(self, numbers: Sequence[wir.Expr]) -> Fragment:
        """Return an array of whole numbers, which a table has or a new variable."""
        parts = [self.expressions.format_index(number) for number in numbers]
        text = joined(", ", [*parts, fragment("0")])  # it is never empty
        known = tuple(int(n) for n in numbers if isinstance(n, int))
        if len(known) < len(numbers):
            name = self.names.claim("sizes")
            self.writer.emit_line("const int64_t {}[] = {{{}}};", name, text)
            return name
        if known not in self._tables:
            name = self._tables[known] = self.names.claim("numbers")
            self.head.emit_line("static const int64_t {}[] = {{{}}};", name, text)
        return self._tables[known]

    def format_layout(self, type: wir.TensorType) -> Fragment:
        """Return three arguments: the rank, the sizes and the strides of a tensor."""
        rank = Fragment(str(len(type.size)))
        arrays = self.format_array(type.size), self.format_array(type.stride)
        return fragment("{}, {}, {}", rank, *arrays)

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
        if isinstance(type, wir.TensorType) and len(type.size) > MOST_DIMENSIONS:
            self.report(f"a tensor has more than {MOST_DIMENSIONS} dimensions")
        if type.device.index not in (None, 0):
            self.report("there is one device, with index 0", str(type.device))

    def format_value(self, argument: wir.Argument, type: wir.ScalarType) -> Fragment:
        """Return a number for a parameter, a result or an output of a scalar type."""
        if isinstance(argument, wir.BufferRef):
            return self.values[argument.name]
        assert isinstance(argument, int | float | wir.Symbol | wir.Operation)  # verified
        return self.expressions.format_number(argument, kind_of(type.dtype))

    def format_kernel_number(
        self, argument: wir.Argument, parameter: wir.RuntimeParameter
    ) -> Fragment:
        """Return a number that a kernel is given, which was checked to fit its type."""
        assert isinstance(parameter, wir.ScalarParameter)  # verified
        assert isinstance(argument, int | float | wir.Symbol | wir.Operation)  # verified
        kind = kind_of(parameter.dtype)
        expr = as_parameter(argument, parameter, self.facts.kinds)
        value = self.expressions.format_number(expr, kind)
        least, most = _limits(parameter.dtype)
        is_known = isinstance(argument, int) and least <= argument <= most
        if not parameter.dtype.is_float and not is_known:
            limits = format_int(least), format_int(most)
            value = fragment("wir_fits(r, {}, {}, {})", value, *limits)
        elif "r->fault" not in value:
            return value
        name = self.names.claim("number")
        self.writer.emit_line("const {} {} = {};", fragment(C_KINDS[kind]), name, value)
        self.writer.emit_line("if (r->fault != NULL) return 0;")
        return name


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: n for n, name in enumerate(names)}


def _limits(dtype: wir.DType) -> tuple[int, int]:
    """Return the least and the greatest whole number of a dtype that the host has."""
    if dtype is wir.DType.BOOL:
        return 0, 1
    half = 1 << (8 * dtype.itemsize - 1)
    return (-half, half - 1) if dtype.value[0] == "i" else (0, min(2 * half, 2**63) - 1)
