"""Each line kind in C++: one method a kind."""

from collections.abc import Sequence
from typing import LiteralString, cast

from wrapperir.diagnostics import Code, Diagnostic, LinePath
from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.emit.provenance import format_provenance, provenances_to_show
from wrapperir.emit.source_writer import SourceWriter
from wrapperir.ir.kernel import Language
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    AnyLine,
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
    SymbolKind,
    WaitEventLine,
    WhileLoopLine,
    ZeroMode,
)
from wrapperir.ir.selection import settled_choice
from wrapperir.ir.types import (
    CPU,
    Device,
    OpaqueType,
    PoolType,
    TensorType,
    ValueType,
)
from wrapperir.ir.visitor import LineVisitor
from wrapperir.text import format_type
from wrapperir_cpp.arena import ArenaPlan
from wrapperir_cpp.asserts import (
    emit_assert_alignment,
    emit_assert_not_nan,
    emit_assert_scalar,
    emit_assert_size_stride,
)
from wrapperir_cpp.blocks import emit_conditional, emit_subgraph, emit_while_loop
from wrapperir_cpp.bounds import check_place, check_view
from wrapperir_cpp.call import CallMembers, SymbolMembers
from wrapperir_cpp.choices import Choices
from wrapperir_cpp.chunks import Chunks
from wrapperir_cpp.expressions import ExpressionFormatter
from wrapperir_cpp.homes import Homes, Indices, leaves
from wrapperir_cpp.kernels import declare_kernel
from wrapperir_cpp.launches import emit_kernel_call
from wrapperir_cpp.literals import format_int
from wrapperir_cpp.memory import MemoryEmitter
from wrapperir_cpp.module_text import CppModule, source_writer
from wrapperir_cpp.operators import emit_operator
from wrapperir_cpp.streams import Streams
from wrapperir_cpp.survey import Survey
from wrapperir_cpp.symbols import emit_symbol_definition
from wrapperir_cpp.triton_kernels import declare_triton_kernel


class CppLines(LineVisitor[None]):
    """Appends each line's C++ to ``writer``; what is of the file goes to ``module``.

    All values of a call are members of ``c``, so lines can be parted into functions.
    What cannot be expressed is given to :meth:`report`.
    """

    def __init__(self, module: CppModule, survey: Survey, arena: ArenaPlan) -> None:
        """Start with an empty function body."""
        self.module = module
        self.survey = survey
        self.arena = arena
        self.writer = source_writer()
        self.types: dict[str, ValueType] = {}
        self.defined_symbols: set[str] = set()
        self.problems: list[Diagnostic] = []
        self.call = CallMembers()
        self.symbols = SymbolMembers(module.symbols, survey.symbols)
        self.expressions = ExpressionFormatter(
            self.symbols,
            survey.symbols_of(SymbolKind.FLOAT),
            survey.symbols_of(SymbolKind.BOOL),
        )
        self.homes = Homes(self._emit_drop)
        self.streams = Streams(self)
        self.memory = MemoryEmitter(self)
        self.chunks = Chunks(module.names)
        self.choices = Choices()
        self._provenance: Provenance | None = None
        self._path: LinePath = ()
        self._index = 0

    def handle(self, name: str, indices: Indices = ()) -> Fragment:
        """Return the handle of a tensor, borrowed; its making is appended if need be.

        ``indices`` are the place of the tensor in a tuple.
        """
        return self.memory.handle(self.homes.element(name, indices), name)

    def address(self, name: str) -> Fragment:
        """Return the address of a tensor's first element, a ``char*``."""
        if name in self.survey.layouts.changed:
            return fragment("data_of({}, {})", self.handle(name), self.line_number())
        return self.memory.address(self.homes[name])

    def pointer(self, name: str, c_type: Fragment) -> Fragment:
        """Return the address of a tensor's first element as a pointer to ``c_type``."""
        return fragment("at<{}>({})", c_type, self.address(name))

    def slot(self, name: str, indices: Indices = ()) -> Fragment:
        """Return the slot of a result, a ``Tensor`` yet to be made."""
        for place, type in leaves(self.types[name]):
            if place == indices and isinstance(type, TensorType | OpaqueType):
                return self.memory.add_slot(name, type, indices)
        raise KeyError(name, indices)

    def scalar(self, name: str, indices: Indices = ()) -> Fragment:
        """Return the number that a name, or its part at ``indices``, stands for."""
        return self.homes.scalar(name, indices)

    def define_scalar(self, name: str, kind: SymbolKind, indices: Indices = ()) -> Fragment:
        """Return the lvalue of a new number."""
        spelled = self.module.values[name]
        if indices:
            spelled = self.module.names.claim("_".join([name, *map(str, indices)]))
        number = self.call.add_number(kind, spelled)
        self.homes.put_scalar(name, number, indices)
        return number

    def static_type(self, name: str) -> ValueType:
        """Return the type that a name was defined with."""
        return self.types[name]

    def region(self, device: Device, name: str) -> Fragment:
        """Return the address of the memory of a device that a storage has its place in."""
        if device == CPU:
            return fragment("c.arena")
        is_kept = name in self.arena.kept_names
        return self.streams.workspace(device) if is_kept else self.streams.block(device)

    def line_number(self) -> Fragment:
        """Return which of the program's lines is being emitted; -1 before the first."""
        is_line = self.path[0] == "lines"
        return format_int(cast(int, self.path[1])) if is_line else format_int(-1)

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

    def emit_definitions(self, definitions: Sequence[DefinitionLine]) -> None:
        """Append the kernels."""
        self._walk(definitions, range(len(definitions)), ("definitions",))

    def emit_symbols(self, symbols: Sequence[SymbolDefinitionLine]) -> None:
        """Append the symbols that are known on entry."""
        self._walk(symbols, range(len(symbols)), ("symbols",))

    def at(self, path: LinePath, index: int) -> None:
        """Say where in the program is what is emitted next."""
        self._path, self._index = path, index

    def emit_lines(self, lines: Sequence[BodyLine], path: LinePath = ("lines",)) -> None:
        """Append lines, in functions of their own where they are many."""
        outer = self._path, self._index, self.writer
        shown = provenances_to_show(lines)

        def emit_part(writer: SourceWriter, part: range) -> None:
            self.writer = writer
            self._walk(lines, part, path, shown)

        self.chunks.emit(self.writer, lines, emit_part)
        self._path, self._index, self.writer = outer

    def _walk(
        self,
        lines: Sequence[AnyLine],
        part: range,
        path: LinePath,
        shown: Sequence[Provenance | None] = (),
    ) -> None:
        for index in part:
            self.at(path, index)
            origin = shown[index] if shown else None
            if origin is not None and origin != self._provenance:
                self._provenance = origin
                remark = format_provenance(origin)
                if remark:
                    self.writer.emit_comment(remark)
            self.visit(lines[index])

    def _emit_drop(self, slot: Fragment) -> None:
        if self.streams.defers_frees and len(self.homes.scopes) == 1:
            return
        self.writer.emit_line("{}.reset();", slot)

    def visit_kernel_definition(self, line: KernelDefinitionLine) -> None:
        """Declare the kernel, if it is called."""
        devices = self.survey.kernel_devices.get(line.name)
        if devices is None:
            self.module.statics.emit_comment(f"{line.name} is never called.")
        elif line.language is Language.CPP:
            declare_kernel(self.module, line)
        elif line.language is Language.TRITON:
            if "cpu" in devices:
                self.report("a Triton kernel does not run on the CPU", line.name)
            else:
                declare_triton_kernel(self, line)
        else:
            self.report("what language the kernel is in is unknown", line.name)

    def visit_multi_kernel(self, line: MultiKernelLine) -> None:
        """Append a remark, if all calls run the same choice: they go straight to it."""
        settled = settled_choice(line.selection)
        if settled is not None:
            choice = line.choices[settled].kernel
            self.module.statics.emit_comment(f"{line.name} is {choice}.")

    def visit_allocate(self, line: AllocateLine) -> None:
        """Append ``empty(c.t[buf0], DType::f32, ints_8_8, ints_8_1, 3);`` or a remark."""
        self.types[line.result] = line.type
        self.memory.allocate(line.result, line.type)
        self.memory.make_changed(line.result)
        planned = line.result in self.arena.offsets
        per_program = line.workspace is ZeroMode.ZERO_PER_PROGRAM
        if line.workspace is ZeroMode.ZERO_ON_CALL or (per_program and not planned):
            self.memory.emit_zero(line.result, line.type)

    def visit_allocate_pool(self, line: AllocatePoolLine) -> None:
        """Append ``empty(c.t[pool0], DType::u8, ints_512, ints_1, 3);`` or a remark."""
        self.memory.allocate(line.result, line.type)

    def visit_place(self, line: PlaceLine) -> None:
        """Append a remark."""
        check_place(self, line)
        apart = line.result in self.survey.layouts.apart
        self.homes.place(line.result, line.pool, line.offset, line.type, apart=apart)
        self._remark(line.result, "lies in", line.pool, line.type)
        if isinstance(line.type, TensorType):
            self.types[line.result] = line.type
            self.memory.make_changed(line.result)
            if line.workspace is ZeroMode.ZERO_ON_CALL:
                self.memory.emit_zero(line.result, line.type)

    def visit_free(self, line: FreeLine) -> None:
        """Append ``c.t[buf0].reset();`` if this was the last name of a slot's memory."""
        self.homes.drop(line.buffer)

    def visit_reuse(self, line: ReuseLine) -> None:
        """Append a remark."""
        self._name_view(line.result, line.source, line.type, "takes")
        self.homes.drop(line.source)

    def visit_reinterpret(self, line: ReinterpretLine) -> None:
        """Append a remark; a tensor is made where one is needed."""
        self._name_view(line.result, line.source, line.type, "views")

    def _name_view(
        self, result: str, source: str, type: TensorType, how: LiteralString
    ) -> None:
        self.types[result] = type
        check_view(self, source, type)
        apart = result in self.survey.layouts.apart
        self.homes.view(result, source, type, apart=apart)
        self._remark(result, how, source, type)
        self.memory.make_changed(result)

    def _remark(
        self, name: str, how: LiteralString, other: str, type: TensorType | PoolType
    ) -> None:
        self.writer.emit_comment(f"{name} {how} {other}: {format_type(type)}")

    def visit_kernel_call(self, line: KernelCallLine) -> None:
        """Append ``cpp_fused_0(c.p[arg0], c.arena + 256, 64);``."""
        emit_kernel_call(self, line)

    def visit_extern_kernel(self, line: ExternKernelLine) -> None:
        """Append the call of an operator."""
        if line.result is not None and line.type is not None:
            self.types[line.result] = line.type
        with self.streams.launching(line):
            emit_operator(self, line)

    def visit_record_event(self, line: RecordEventLine) -> None:
        """Append ``c.cuda_0->record(0, 1, 12);``; nothing on the CPU."""
        self.streams.emit_record(line)

    def visit_wait_event(self, line: WaitEventLine) -> None:
        """Append ``c.cuda_0->wait(*c.cuda_0, 0, 2, 14);``; nothing on the CPU."""
        self.streams.emit_wait(line)

    def visit_multi_output(self, line: MultiOutputLine) -> None:
        """Append a remark."""
        self.types[line.result] = line.type
        self.homes.take_element(line.result, line.source, line.indices)
        place = "".join(f"[{index}]" for index in line.indices)
        self.writer.emit_comment(f"{line.result} is {line.source}{place}")

    def visit_symbol_definition(self, line: SymbolDefinitionLine) -> None:
        """Append ``c.s0 = size(...);`` and the check of its range."""
        if isinstance(line.source, ItemOf):
            self.streams.emit_wait_for_all()
        emit_symbol_definition(self, line)

    def visit_assert_size_stride(self, line: AssertSizeStrideLine) -> None:
        """Append a check of a layout, unless it was checked or made like this."""
        type = self.types[line.buffer]
        if (
            line.buffer not in self.survey.layouts.exact
            or not isinstance(type, TensorType)
            or (type.size, type.stride) != (line.size, line.stride)
        ):
            emit_assert_size_stride(self, line)

    def visit_assert_alignment(self, line: AssertAlignmentLine) -> None:
        """Append a check of the address, unless it is known."""
        if not self.memory.is_aligned(line.buffer, line.bytes):
            emit_assert_alignment(self, line)

    def visit_assert_scalar(self, line: AssertScalarLine) -> None:
        """Append a check of a condition."""
        emit_assert_scalar(self, line)

    def visit_assert_not_nan(self, line: AssertNotNanLine) -> None:
        """Append a check of every element."""
        self.streams.emit_wait_for_all()
        emit_assert_not_nan(self, line)

    def visit_conditional(self, line: ConditionalLine) -> None:
        """Append ``if`` and ``else``."""
        if isinstance(line.predicate, BufferRef):
            self.streams.emit_wait_for_all()
        emit_conditional(self, line)

    def visit_while_loop(self, line: WhileLoopLine) -> None:
        """Append a loop."""
        self.streams.emit_wait_for_all()
        emit_while_loop(self, line)

    def visit_subgraph_call(self, line: SubgraphCallLine) -> None:
        """Append the lines of the block in place."""
        emit_subgraph(self, line)

    def visit_comment(self, line: CommentLine) -> None:
        """Append the comment, escaped."""
        self.writer.emit_comment(line.text)
