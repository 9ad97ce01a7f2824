"""Formatting of programs as text; equal programs have equal text."""

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    KEYWORDS,
    SCHEMA_VERSION,
    AllocateLine,
    AllocatePoolLine,
    AnyLine,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    Block,
    BodyLine,
    CommentLine,
    ConditionalLine,
    ExternKernelLine,
    FreeLine,
    KernelCallLine,
    KernelDefinitionLine,
    LineVisitor,
    MultiKernelLine,
    MultiOutputLine,
    PlaceLine,
    Program,
    RecordEventLine,
    ReinterpretLine,
    Result,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WaitEventLine,
    WhileLoopLine,
)
from wrapperir.text.definition_printer import format_kernel_definition, format_multi_kernel
from wrapperir.text.limits import MAX_BLOCK_DEPTH, WRITE_ERRORS, Malformed, placed
from wrapperir.text.literals import format_integer, format_string
from wrapperir.text.part_printer import PartPrinter


class Printer(LineVisitor[None]):
    """Appends the text of each line it visits to ``lines``."""

    def __init__(self) -> None:
        """Start at the left margin."""
        self.lines: list[str] = []
        self._part = PartPrinter()
        self._depth = 0
        self._indent = ""
        self._dispatch = {
            kind: getattr(self, f"visit_{keyword}") for kind, keyword in KEYWORDS.items()
        }

    def program(self, program: Program) -> None:
        """Append a whole program."""
        part = self._part
        self.lines += [f"wrapperir {SCHEMA_VERSION}", ""]
        for index, definition in enumerate(program.definitions):
            self._within(("definitions", index), definition)
            self.lines.append("")
        inputs: list[str] = []
        for index, item in enumerate(program.inputs):
            try:
                mutated = "mutated " if item.mutated else ""
                inputs.append(f"%{part.name(item.name)}: {mutated}{part.type(item.type)}")
            except Malformed as error:
                raise error.within("inputs", index) from None
        self.lines.append(f"program @{part.name(program.name)}({', '.join(inputs)}) {{")
        self._indent = "  "
        for index, symbol in enumerate(program.symbols):
            try:
                self._symbol("symbol", symbol)
            except Malformed as error:
                raise error.within("symbols", index) from None
        for index, constant in enumerate(program.constants):
            try:
                mutated = "mutated " if constant.mutated else ""
                self.lines.append(
                    f"  constant %{part.name(constant.name)}: {mutated}"
                    f"{part.tensor(constant.type)} = {format_string(constant.key)}"
                )
            except Malformed as error:
                raise error.within("constants", index) from None
        if program.symbols or program.constants:
            self.lines.append("")
        self._body(program.lines)
        try:
            self.lines.append(f"  return {part.operands(program.outputs)}".rstrip(" "))
        except Malformed as error:
            raise error.within("outputs") from None
        self.lines += ["}", ""]

    def _within(self, path: tuple[str, int], line: AnyLine) -> None:
        try:
            self.visit(line)
        except WRITE_ERRORS as error:
            raise placed(error, *path) from None

    def _body(self, lines: tuple[BodyLine, ...]) -> None:
        index = 0
        dispatch = self._dispatch
        try:
            for index, line in enumerate(lines):  # noqa: B007 - the handler reads it
                dispatch[type(line)](line)
        except WRITE_ERRORS as error:
            raise placed(error, "lines", index) from None

    def _block(self, word: str, role: str, block: Block) -> None:
        part, indent = self._part, self._indent
        if self._depth == MAX_BLOCK_DEPTH:
            raise Malformed(
                Code.TOO_DEEP, f"more than {MAX_BLOCK_DEPTH} blocks within blocks"
            )
        try:
            parameters = ", ".join(
                [f"%{part.name(p.name)}: {part.type(p.type)}" for p in block.parameters]
            )
            self.lines.append(f"{indent}  {word} ({parameters}) {{")
            self._depth += 1
            self._indent = indent + "    "
            self._body(block.lines)
            self._indent = indent
            self._depth -= 1
            returned = f"{indent}    return {part.operands(block.results)}"
            self.lines.append(returned.rstrip(" "))
            self.lines.append(f"{indent}  }}")
        except Malformed as error:
            raise error.within(role) from None

    # Definitions

    def visit_kernel_definition(self, line: KernelDefinitionLine) -> None:
        """Print a kernel definition."""
        self.lines += format_kernel_definition(line, self._part)

    def visit_multi_kernel(self, line: MultiKernelLine) -> None:
        """Print a multi-kernel."""
        self.lines += format_multi_kernel(line, self._part)

    # Buffers

    def visit_allocate(self, line: AllocateLine) -> None:
        """Print an allocation."""
        part = self._part
        mode = line.workspace
        workspace = "" if mode is None else f" workspace({mode.value})"
        self.lines.append(
            f"{self._indent}%{part.name(line.result)} = allocate {part.tensor(line.type)}"
            f"{workspace}{part.origin(line.provenance)}"
        )

    def visit_allocate_pool(self, line: AllocatePoolLine) -> None:
        """Print a pool's allocation."""
        part = self._part
        self.lines.append(
            f"{self._indent}%{part.name(line.result)} = allocate_pool "
            f"{part.pool(line.type)}{part.origin(line.provenance)}"
        )

    def visit_place(self, line: PlaceLine) -> None:
        """Print a placement."""
        part = self._part
        mode = line.workspace
        workspace = "" if mode is None else f" workspace({mode.value})"
        self.lines.append(
            f"{self._indent}%{part.name(line.result)} = place {part.placed(line.type)} in "
            f"%{part.name(line.pool)} at {part.expression(line.offset)}"
            f"{workspace}{part.origin(line.provenance)}"
        )

    def visit_free(self, line: FreeLine) -> None:
        """Print a free."""
        part = self._part
        self.lines.append(
            f"{self._indent}free %{part.name(line.buffer)}{part.origin(line.provenance)}"
        )

    def visit_reuse(self, line: ReuseLine) -> None:
        """Print a reuse."""
        part = self._part
        self.lines.append(
            f"{self._indent}%{part.name(line.result)} = reuse %{part.name(line.source)} as "
            f"{part.tensor(line.type)}{part.origin(line.provenance)}"
        )

    def visit_reinterpret(self, line: ReinterpretLine) -> None:
        """Print a view."""
        part = self._part
        self.lines.append(
            f"{self._indent}%{part.name(line.result)} = reinterpret "
            f"%{part.name(line.source)} as {part.tensor(line.type)}"
            f"{part.origin(line.provenance)}"
        )

    # Calls

    def visit_kernel_call(self, line: KernelCallLine) -> None:
        """Print a kernel call."""
        part = self._part
        self.lines.append(
            f"{self._indent}kernel_call @{part.name(line.kernel)}"
            f"({part.operands(line.arguments)}){part.on(line.device, line.stream)}"
            f"{part.origin(line.provenance)}"
        )

    def visit_extern_kernel(self, line: ExternKernelLine) -> None:
        """Print an operator call."""
        part = self._part
        result = "" if line.result is None else f"%{part.name(line.result)} = "
        given = part.operands(line.arguments)
        if line.keywords:
            named = [f"{part.name(n)} = {part.operand(v)}" for n, v in line.keywords]
            given = f"{given}, {', '.join(named)}" if given else ", ".join(named)
        effects = ""
        if line.writes:
            effects = f" writes({self._values(line.writes)})"
        if line.aliases:
            effects += f" aliases({self._values(line.aliases)})"
        type = "" if line.type is None else f" : {part.type(line.type)}"
        self.lines.append(
            f"{self._indent}{result}extern_kernel {part.dotted(line.operator)}({given})"
            f"{effects}{part.on(line.device, line.stream)}{type}"
            f"{part.origin(line.provenance)}"
        )

    def _values(self, names: tuple[str, ...]) -> str:
        return ", ".join([f"%{self._part.name(name)}" for name in names])

    def visit_multi_output(self, line: MultiOutputLine) -> None:
        """Print the selection of one of several results."""
        part = self._part
        indices = "".join([f"[{format_integer(index)}]" for index in line.indices])
        self.lines.append(
            f"{self._indent}%{part.name(line.result)} = multi_output "
            f"%{part.name(line.source)}{indices} : {part.type(line.type)}"
            f"{part.origin(line.provenance)}"
        )

    def visit_record_event(self, line: RecordEventLine) -> None:
        """Print the recording of an event."""
        part = self._part
        self.lines.append(
            f"{self._indent}%{part.name(line.result)} = record_event"
            f"{part.on(line.device, line.stream)}{part.origin(line.provenance)}"
        )

    def visit_wait_event(self, line: WaitEventLine) -> None:
        """Print a wait."""
        part = self._part
        self.lines.append(
            f"{self._indent}wait_event %{part.name(line.event)}"
            f"{part.on(line.device, line.stream)}{part.origin(line.provenance)}"
        )

    # Symbols, asserts, comments

    def visit_symbol_definition(self, line: SymbolDefinitionLine) -> None:
        """Print a symbol's definition."""
        self._symbol("symbol_definition", line)

    def _symbol(self, word: str, line: SymbolDefinitionLine) -> None:
        part = self._part
        bounds = ""
        if line.lower is not None or line.upper is not None:
            lower = "" if line.lower is None else format_integer(line.lower)
            upper = "" if line.upper is None else format_integer(line.upper)
            bounds = f" {lower}..{upper}"
        self.lines.append(
            f"{self._indent}{word} {part.symbol(line.symbol)}: {line.kind.value}{bounds}"
            f" = {part.source(line.source)}{part.origin(line.provenance)}"
        )

    def visit_assert_size_stride(self, line: AssertSizeStrideLine) -> None:
        """Print a check of size and stride."""
        part = self._part
        self.lines.append(
            f"{self._indent}assert_size_stride %{part.name(line.buffer)} "
            f"({part.expressions(line.size)}) ({part.expressions(line.stride)})"
            f"{_message(line.message)}{part.origin(line.provenance)}"
        )

    def visit_assert_alignment(self, line: AssertAlignmentLine) -> None:
        """Print a check of alignment."""
        part = self._part
        self.lines.append(
            f"{self._indent}assert_alignment %{part.name(line.buffer)} "
            f"{format_integer(line.bytes)}{_message(line.message)}"
            f"{part.origin(line.provenance)}"
        )

    def visit_assert_scalar(self, line: AssertScalarLine) -> None:
        """Print a check of a condition."""
        part = self._part
        self.lines.append(
            f"{self._indent}assert_scalar {part.expression(line.condition)}"
            f"{_message(line.message)}{part.origin(line.provenance)}"
        )

    def visit_assert_not_nan(self, line: AssertNotNanLine) -> None:
        """Print a check for NaN."""
        part = self._part
        self.lines.append(
            f"{self._indent}assert_not_nan %{part.name(line.buffer)}"
            f"{_message(line.message)}{part.origin(line.provenance)}"
        )

    def visit_comment(self, line: CommentLine) -> None:
        """Print a remark."""
        self.lines.append(
            f"{self._indent}comment {format_string(line.text)}"
            f"{self._part.origin(line.provenance)}"
        )

    # Lines with blocks

    def visit_conditional(self, line: ConditionalLine) -> None:
        """Print a conditional."""
        part = self._part
        self._opening(
            line.results,
            f"conditional {part.operand(line.predicate)} ({part.operands(line.operands)})",
            line,
        )
        self._block("true", "on_true", line.on_true)
        self._block("false", "on_false", line.on_false)
        self.lines.append(self._indent + "}")

    def visit_while_loop(self, line: WhileLoopLine) -> None:
        """Print a loop."""
        part = self._part
        carried, invariant = part.operands(line.carried), part.operands(line.invariant)
        self._opening(line.results, f"while_loop ({carried}) ({invariant})", line)
        self._block("condition", "condition", line.condition)
        self._block("body", "body", line.body)
        self.lines.append(self._indent + "}")

    def visit_subgraph_call(self, line: SubgraphCallLine) -> None:
        """Print a call of a block."""
        part = self._part
        self._opening(
            line.results,
            f"subgraph_call @{part.name(line.name)} ({part.operands(line.operands)})",
            line,
        )
        self._block("body", "body", line.body)
        self.lines.append(self._indent + "}")

    def _opening(self, results: tuple[Result, ...], text: str, line: BodyLine) -> None:
        part = self._part
        names, types = "", ""
        if results:
            names = f"{self._values(tuple(result.name for result in results))} = "
            types = f" : {', '.join([part.type(result.type) for result in results])}"
        origin = part.origin(line.provenance)
        self.lines.append(f"{self._indent}{names}{text}{types}{origin} {{")


def _message(message: str) -> str:
    return f" {format_string(message)}" if message else ""
