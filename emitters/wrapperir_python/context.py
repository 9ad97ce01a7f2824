"""The context of Python emission: the module, its names, and methods to override."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.emit import Fragment, SourceWriter, fragment, joined
from wrapperir.emit.argument_facts import survey_arguments
from wrapperir.emit.context import Emission, ProgramFacts
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.pools import PoolTensors
from wrapperir.emit.python.expressions import (
    PythonExpressions,
    format_converted,
    format_int,
)
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.emit.stream_actions import StreamPlanner, stream_uses
from wrapperir.emit.support import unsupported_memory
from wrapperir.emit.triton_signature import ArgumentFacts
from wrapperir_python.arguments import ArgumentFormatter


@frozen
class Callee:
    """The function that a kernel call calls.

    ``definition`` is the kernel, or the multi-kernel if the program picks while it runs.
    ``positions`` are the positions of the call's arguments that it takes, ``None`` for all,
    and ``scalars`` the dtypes that the numbers among these are given as.
    """

    function: Fragment
    definition: wir.DefinitionLine
    positions: tuple[int, ...] | None
    scalars: tuple[wir.DType | None, ...]


class PythonContext(Emission, ABC):
    """The module being written, the body of ``call``, and the names of values.

    ``values`` has the Python variable of each value.  ``owned`` are the names of memory
    that the program allocates, ``unrecorded`` the events that need no statement.
    ``region_stream`` is the stream of the recorded region that is being written.
    """

    def __init__(self, module: ModuleText, facts: ProgramFacts) -> None:
        """Start with an empty function body."""
        super().__init__(facts)
        self.module = module
        self.writer = SourceWriter()
        self.values = module.values
        self.expressions = PythonExpressions(module.symbols, module.need, facts.kinds)
        gpu = facts.first_gpu
        self.arguments = ArgumentFormatter(
            module, self.expressions, None if gpu is None else gpu.index
        )
        self.streams = StreamPlanner(facts, stream_uses(facts.effects))
        self.region_stream: wir.Stream | None = None
        self.pools = PoolTensors()
        self.owned: set[str] = set()
        self.unrecorded: set[str] = set()
        self.callees: dict[str, Callee] = {}

    @abstractmethod
    def emit_lines(self, lines: Sequence[wir.BodyLine], path: LinePath) -> None:
        """Append lines; ``path`` is the place of their tuple."""

    def emit_moved(self, names: Iterable[str]) -> None:
        """Append code for names of a block that become results of its line."""

    def format_allocation(self, type: wir.TensorType, *, in_call: bool = True) -> Fragment:
        """Return the allocation of an uninitialised tensor of ``type``."""
        for message, subject in unsupported_memory(type):
            self.report(message, subject)
        return self.arguments.format_allocation(type, in_call=in_call)

    @cached_property
    def argument_facts(self) -> Mapping[str, tuple[ArgumentFacts, ...]]:
        """The facts that all calls of a kernel share about its runtime arguments."""
        return survey_arguments(self.facts)

    def format_kernel_arguments(
        self, arguments: Sequence[wir.KernelArgument], scalars: Sequence[wir.DType | None]
    ) -> Fragment:
        """Return a call's arguments; ``scalars`` are the dtypes of those by value."""
        return joined(", ", self.format_each_argument(arguments, scalars))

    def format_each_argument(
        self, arguments: Sequence[wir.KernelArgument], scalars: Sequence[wir.DType | None]
    ) -> list[Fragment]:
        """Return each argument of a call, as :meth:`format_kernel_arguments` does all."""
        return [
            self.values[argument.name]
            if isinstance(argument, wir.BufferRef)
            else self.format_number(argument, dtype)
            for argument, dtype in zip(arguments, scalars, strict=True)
        ]

    def format_number(self, value: wir.Expr, dtype: wir.DType | None) -> Fragment:
        """Return an expression as a number of a dtype: a float, a bool or an int."""
        return self.expressions.format_number(value, kind_of(dtype))

    def format_operand(self, operand: wir.Argument, type: wir.ValueType) -> Fragment:
        """Return an operand or result of a block; a number is converted to its type."""
        if isinstance(type, wir.ScalarType):
            if isinstance(operand, int | float | wir.Symbol | wir.Operation):
                return self.format_number(operand, type.dtype)
            if isinstance(operand, wir.BufferRef):
                given = self.facts.types[operand.name]
                old = kind_of(given.dtype) if isinstance(given, wir.ScalarType) else None
                value = self.values[operand.name]
                return format_converted(self.module.need, value, old, kind_of(type.dtype))
        return self.arguments.format_argument(operand)

    def emit_launch(self, callee: Callee, arguments: Fragment, device: wir.Device) -> None:
        """Append the launch of a kernel, with its device made current."""
        call = fragment("{}({})", callee.function, arguments)
        if device.kind != "cuda" or device.index in (None, self.arguments.current_gpu):
            self.writer.emit_line("{}", call)
            return
        index = format_int(device.index or 0)
        self.writer.emit_line("with torch.cuda._DeviceGuard({}):", index)
        with self.writer.indented():
            self.writer.emit_line("{}", call)
