"""Each line kind in Python: one method a kind, for third parties to override."""

from collections.abc import Iterable, Sequence
from typing import cast

from wrapperir.diagnostics import Code, Diagnostic, LinePath
from wrapperir.emit.allocations import unsupported_memory
from wrapperir.emit.fragment import Fragment, fragment, joined
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.provenance import format_provenance, provenances_to_show
from wrapperir.emit.source_writer import SourceWriter
from wrapperir.ir.effects import uses
from wrapperir.ir.expr import Expr, Operation, Symbol
from wrapperir.ir.kernel import Language
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    AnyLine,
    Argument,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    BodyLine,
    BufferRef,
    CommentLine,
    ConditionalLine,
    DefinitionLine,
    ExternKernelLine,
    FreeLine,
    ItemOf,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    MultiKernelLine,
    MultiOutputLine,
    PlaceLine,
    Provenance,
    RecordEventLine,
    ReinterpretLine,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WaitEventLine,
    WhileLoopLine,
    ZeroMode,
)
from wrapperir.ir.mentions import buffers_in
from wrapperir.ir.program import Program
from wrapperir.ir.types import (
    Device,
    DType,
    ScalarType,
    TensorType,
    ValueType,
)
from wrapperir.ir.visitor import LineVisitor
from wrapperir_python.arguments import ArgumentFormatter
from wrapperir_python.asserts import (
    emit_assert_alignment,
    emit_assert_not_nan,
    emit_assert_scalar,
    emit_assert_size_stride,
)
from wrapperir_python.blocks import emit_conditional, emit_subgraph, emit_while_loop
from wrapperir_python.choices import Choices, describe_choice
from wrapperir_python.cpp_kernels import emit_cpp_kernel
from wrapperir_python.direct_operators import format_direct_call
from wrapperir_python.expressions import ExpressionFormatter
from wrapperir_python.launches import Callee as Callee
from wrapperir_python.launches import emit_launch, find_callee
from wrapperir_python.literals import format_int
from wrapperir_python.memory import MemoryFormatter
from wrapperir_python.module_text import ModuleText
from wrapperir_python.numbers import format_converted
from wrapperir_python.operators import format_call
from wrapperir_python.pools import PooledMemory
from wrapperir_python.streams import Streams
from wrapperir_python.survey import Survey
from wrapperir_python.symbols import emit_range_check, format_symbol_source
from wrapperir_python.triton_kernels import emit_triton_kernel
from wrapperir_python.workspaces import emit_program_workspace

_NARROW_FLOATS = frozenset(dtype for dtype in DType if dtype.value.startswith("f8"))


class PythonLines(LineVisitor[None]):
    """Appends each line's Python to ``writer``; definitions go to ``module``.

    Subclasses override ``visit_*`` methods, or the ``format_*`` ones for what several
    lines share.  What cannot be expressed is given to :meth:`report`.
    """

    def __init__(self, module: ModuleText, survey: Survey, emitter: str = "python") -> None:
        """Start with an empty function body; ``emitter`` is the name of who emits."""
        self.module = module
        self.emitter = emitter
        self.survey = survey
        self.writer = SourceWriter()
        self.values = module.values
        self.constants = survey.constants
        self.types: dict[str, ValueType] = {}
        self.defined_symbols: set[str] = set()
        self.owned: set[str] = set()  # names of memory that the program allocates
        self.problems: list[Diagnostic] = []
        self.expressions = ExpressionFormatter(module.symbols, module.need, survey.kinds)
        self.pools = PooledMemory(self)
        self.streams = Streams(self)
        self.arguments = ArgumentFormatter(module, self.expressions)
        self.memory = MemoryFormatter(
            module, self.expressions, self.arguments, survey.device
        )
        self.choices = Choices()
        self._callees: dict[str, Callee] = {}
        self._provenance: Provenance | None = None
        self._path: LinePath = ()
        self._index = 0

    def emit_definitions(self, definitions: Sequence[DefinitionLine]) -> None:
        """Append the kernels; those in C++ are compiled side by side."""
        languages = {
            line.language
            for line in definitions
            if isinstance(line, KernelDefinitionLine)
            and line.name in self.survey.kernel_devices
        }
        writer = self.module.definitions
        if Language.CPP in languages:
            self.module.need("AsyncCompile")
            writer.emit_line("async_compile = AsyncCompile()")
        self._walk(definitions, ("definitions",), writer)
        if Language.CPP in languages:
            self.module.awaiting.emit_line("async_compile.wait(globals())")
            self.module.awaiting.emit_line("del async_compile")

    def emit_begin(self, program: Program) -> None:
        """Append what comes before all lines."""

    def emit_end(self, program: Program) -> None:
        """Append what comes after all lines."""
        self.streams.emit_uses_of_stream_0(buffers_in(program.outputs))

    def emit_moved(self, names: Iterable[str]) -> None:
        """Append what the names of a block need that become results of its line."""

    def emit_lines(self, lines: Sequence[BodyLine], path: LinePath = ("lines",)) -> None:
        """Append lines; ``path`` is the place of their tuple."""
        outer = self._path, self._index
        self._walk(lines, path, self.writer)
        self._path, self._index = outer

    def _walk(
        self, lines: Sequence[AnyLine], path: LinePath, remarks: SourceWriter
    ) -> None:
        self._path = path
        for index, origin in enumerate(provenances_to_show(lines)):
            self._index = index
            if origin is not None and origin != self._provenance:
                self._provenance = origin
                remark = format_provenance(origin)
                if remark:
                    remarks.emit_comment(remark)
            self.visit(lines[index])

    @property
    def path(self) -> LinePath:
        """The place of the line that is being emitted."""
        return (*self._path, self._index)

    def report(self, message: str, subject: str | None = None) -> None:
        """Say that the current line asks for something this emitter lacks."""
        self.problems.append(
            Diagnostic(
                code=Code.UNSUPPORTED_FEATURE,
                message=message,
                path=self.path,
                subject=subject,
            )
        )

    def format_allocation(self, type: TensorType, *, in_call: bool = True) -> Fragment:
        """Return the allocation of an uninitialised tensor of ``type``."""
        for message, subject in unsupported_memory(type):
            self.report(message, subject)
        return self.memory.format_allocation(type, in_call=in_call)

    def format_kernel_arguments(
        self, arguments: Sequence[KernelArgument], scalars: Sequence[DType | None]
    ) -> Fragment:
        """Return a call's arguments; ``scalars`` are the dtypes of those by value."""
        values = self.values
        return joined(
            ", ",
            [
                values[argument.name]
                if isinstance(argument, BufferRef)
                else self.format_number(argument, dtype)
                for argument, dtype in zip(arguments, scalars, strict=True)
            ],
        )

    def format_number(self, value: Expr, dtype: DType | None) -> Fragment:
        """Return an expression as a number of a dtype: a float, a bool or an int."""
        return self.expressions.format_number(value, kind_of(dtype))

    def format_operand(self, operand: Argument, type: ValueType) -> Fragment:
        """Return what goes into or comes out of a block; a number becomes its type's."""
        if isinstance(type, ScalarType):
            if isinstance(operand, int | float | Symbol | Operation):
                return self.format_number(operand, type.dtype)
            if isinstance(operand, BufferRef):
                given = self.types.get(operand.name)
                old = kind_of(given.dtype) if isinstance(given, ScalarType) else None
                value = self.values[operand.name]
                return format_converted(self.module, value, old, kind_of(type.dtype))
        return self.arguments.format_argument(operand)

    def emit_launch(self, callee: Callee, arguments: Fragment, device: Device) -> None:
        """Append the launch of a kernel."""
        emit_launch(self, callee, arguments, device)

    def visit_kernel_definition(self, line: KernelDefinitionLine) -> None:
        """Append the kernel, if it is called."""
        if line.name not in self.survey.kernel_devices:
            self.module.definitions.emit_comment(f"{line.name} is never called.")
        elif line.language is Language.CPP:
            emit_cpp_kernel(self.module, line)
        elif line.language is Language.TRITON:
            if any("\ud800" <= character <= "\udfff" for character in line.source):
                self.report("the source of a kernel is no Unicode text", line.name)
            emit_triton_kernel(self.module, line)

    def visit_multi_kernel(self, line: MultiKernelLine) -> None:
        """Append a remark; what picks while the program runs is appended by calls."""
        self.module.definitions.emit_comment(describe_choice(line))

    def visit_allocate(self, line: AllocateLine) -> None:
        """Append ``buf0 = empty_strided_cpu((8, 8), (8, 1), float32)``."""
        self.types[line.result] = line.type
        result = self.values[line.result]
        if line.workspace is ZeroMode.ZERO_PER_PROGRAM:
            emit_program_workspace(self, result, line.type)
            return
        self.owned.add(line.result)
        allocation = self.format_allocation(line.type)
        with self.streams.allocating(line.result):
            self.writer.emit_line("{} = {}", result, allocation)
        if line.workspace is ZeroMode.ZERO_ON_CALL:
            self.streams.emit_zero(line.result)

    def visit_allocate_pool(self, line: AllocatePoolLine) -> None:
        """Append ``pool0 = empty_strided_cpu((512,), (1,), float32)``."""
        with self.streams.allocating(line.result):
            self.pools.allocate(line)

    def visit_place(self, line: PlaceLine) -> None:
        """Append a view of the pool, unless there is one of that place and type."""
        self.streams.alias(line.result, line.pool)
        self.pools.place(line)

    def visit_free(self, line: FreeLine) -> None:
        """Append ``del buf0``; what lies in a pool goes with the pool."""
        if line.buffer in self.pools:
            self.pools.drop(line.buffer)
        elif line.buffer not in self.streams.unrecorded:
            self.writer.emit_line("del {}", self.values[line.buffer])

    def visit_reuse(self, line: ReuseLine) -> None:
        """Append ``buf1 = reinterpret_tensor(buf0, …); del buf0`` if the layout differs."""
        self.streams.alias(line.result, line.source)
        if line.source in self.pools:
            self.pools.view(line.result, line.source, line.type)
            self.pools.drop(line.source)
            return
        source = self.values[line.source]
        view = self._format_view(line.source, line.type)
        self.types[line.result] = line.type
        self.owned.add(line.result)
        if view == source:
            self.rename(line.result, source)
            return
        result = self.values[line.result]
        self.writer.emit_line("{} = {}; del {}  # reuse", result, view, source)

    def rename(self, name: str, value: Fragment) -> None:
        """Let a name stand for a Python variable that there is, and say so."""
        self.values[name] = value
        self.writer.emit_comment(f"{name} is {value}")

    def visit_reinterpret(self, line: ReinterpretLine) -> None:
        """Append ``view0 = reinterpret_tensor(buf0, (64,), (1,), 0)``."""
        self.streams.alias(line.result, line.source)
        if line.source in self.pools:
            self.pools.view(line.result, line.source, line.type)
            return
        view = self._format_view(line.source, line.type)
        self.types[line.result] = line.type
        if line.source in self.owned:
            self.owned.add(line.result)
        self.writer.emit_line("{} = {}", self.values[line.result], view)

    def visit_kernel_call(self, line: KernelCallLine) -> None:
        """Append ``cpp_fused_0(buf0, buf1, 64)``, ``mm_by_shape[s0, 64](buf0, s0)``."""
        callee = self._callees.get(line.kernel)
        if callee is None:
            callee = find_callee(self, line)
            if isinstance(self.survey.definitions[line.kernel], KernelDefinitionLine):
                self._callees[line.kernel] = callee  # the same wherever it is called
        arguments = line.arguments
        if callee.positions is not None:
            arguments = tuple(arguments[position] for position in callee.positions)
        text = self.format_kernel_arguments(arguments, callee.scalars)
        with self.streams.launching(line):
            self.emit_launch(callee, text, line.device)

    def visit_extern_kernel(self, line: ExternKernelLine) -> None:
        """Append ``mm_out(arg0, arg1, buf0)``, ``buf1 = aten_relu_default(buf0)``."""
        call = format_direct_call(self, line) or format_call(self, line)
        if line.result is not None:
            if line.type is not None:
                self.types[line.result] = line.type
            call = fragment("{} = {}", self.values[line.result], call)
        with self.streams.launching(line):
            self.writer.emit_line("{}", call)

    def visit_record_event(self, line: RecordEventLine) -> None:
        """Append ``event = cuda_0_stream_1.record_event()``; nothing on the CPU."""
        self.streams.emit_record(line)

    def visit_wait_event(self, line: WaitEventLine) -> None:
        """Append ``cuda_0_stream_2.wait_event(event)``; nothing on the CPU."""
        self.streams.emit_wait(line)

    def visit_multi_output(self, line: MultiOutputLine) -> None:
        """Append ``buf1 = buf0[1]``."""
        self.types[line.result] = line.type
        self.streams.alias(line.result, line.source)
        indices = [fragment("[{}]", format_int(index)) for index in line.indices]
        result, source = self.values[line.result], self.values[line.source]
        self.writer.emit_line("{} = {}{}", result, source, joined("", indices))

    def visit_symbol_definition(self, line: SymbolDefinitionLine) -> None:
        """Append ``s0 = arg0.size(0)`` and the check of its range."""
        symbol = self.module.symbols[line.symbol]
        if isinstance(line.source, ItemOf):
            self.streams.emit_wait_for_all()
        self.writer.emit_line("{} = {}", symbol, format_symbol_source(self, line))
        self.defined_symbols.add(line.symbol)
        emit_range_check(self.writer, symbol, line)

    def visit_assert_size_stride(self, line: AssertSizeStrideLine) -> None:
        """Append ``assert_size_stride(buf0, (8, 8), (8, 1), 'aten.mm')``."""
        emit_assert_size_stride(self, line)

    def visit_assert_alignment(self, line: AssertAlignmentLine) -> None:
        """Append a check of the address."""
        emit_assert_alignment(self, line)

    def visit_assert_scalar(self, line: AssertScalarLine) -> None:
        """Append a check of a condition."""
        emit_assert_scalar(self, line)

    def visit_assert_not_nan(self, line: AssertNotNanLine) -> None:
        """Append a check of every element."""
        emit_assert_not_nan(self, line)

    def visit_conditional(self, line: ConditionalLine) -> None:
        """Append ``if`` and ``else``."""
        if isinstance(line.predicate, BufferRef):
            self.streams.emit_wait_for_all()
        self.streams.emit_uses_of_stream_0(uses(line))
        emit_conditional(self, line)

    def visit_while_loop(self, line: WhileLoopLine) -> None:
        """Append a ``while`` loop."""
        self.streams.emit_wait_for_all()
        self.streams.emit_uses_of_stream_0(uses(line))
        emit_while_loop(self, line)

    def visit_subgraph_call(self, line: SubgraphCallLine) -> None:
        """Append the lines of the block in place."""
        self.streams.emit_uses_of_stream_0(uses(line))
        emit_subgraph(self, line)

    def visit_comment(self, line: CommentLine) -> None:
        """Append the comment, escaped."""
        self.writer.emit_comment(line.text)

    def _format_view(self, source: str, type: TensorType) -> Fragment:
        old = cast(TensorType, self.types[source])  # a verified program views tensors
        return self.memory.format_view(self.values[source], old, type)
