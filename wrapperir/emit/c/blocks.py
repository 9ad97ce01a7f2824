"""Lines with nested blocks in C and C++."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.emit.blocks import BlockEmitter, own_results
from wrapperir.emit.c.context import CContext
from wrapperir.emit.c.expressions import C_KINDS, format_int
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.source_text import Fragment, fragment


class CBlocks(BlockEmitter):
    """Emits ``if``, ``else`` and ``while`` around the lines of blocks.

    A block's results are moved to variables that are declared before it.  Its parameters
    are variables of its own, which borrow: they are not counted as names of memory.
    """

    def __init__(
        self,
        context: CContext,
        emit_lines: Callable[[Sequence[wir.BodyLine], LinePath], None],
    ) -> None:
        """Emit the blocks of the current line; ``emit_lines`` appends their lines."""
        super().__init__(context)
        self._context = context
        self._emit_lines = emit_lines

    def emit_conditional(self, line: wir.ConditionalLine) -> None:
        """Append the variables of the results, then both blocks."""
        self._declare(line.results)
        super().emit_conditional(line)

    def emit_subgraph(self, line: wir.SubgraphCallLine | wir.GraphRegionLine) -> None:
        """Append the variables of the results, then the block in braces."""
        self._declare(line.results)
        with self._context.braces(fragment("")):
            super().emit_subgraph(line)

    def _declare(self, results: Sequence[wir.Result]) -> None:
        for result in results:
            self._context.declare(result.name, result.type)

    def format_predicate(self, predicate: wir.KernelArgument) -> Fragment:
        """Return the test of a condition; an element is read on the host first."""
        context = self._context
        if not isinstance(predicate, wir.BufferRef):
            test = context.expressions.format_number(predicate, wir.SymbolKind.BOOL)
            chosen = context.names.claim("chosen")
            context.writer.emit_line("int64_t {} = {};", chosen, test)
            context.emit_step('wir_check(r, 1, "")')
            return chosen
        item = context.names.claim(f"{predicate.name}_item")
        context.writer.emit_line("uint8_t {} = 0;", item)
        value = context.values[predicate.name]
        context.emit_step("wir_item(r, &{}, 1, &{})", value, item)
        return item

    @contextmanager
    def branch(self, test: Fragment) -> Generator[None]:
        """Append ``if``."""
        with self._context.braces(fragment("if ({}) ", test)):
            yield

    @contextmanager
    def otherwise(self) -> Generator[None]:
        """Append ``else``."""
        with self._context.braces(fragment("else ")):
            yield

    @contextmanager
    def loop(self, results: Sequence[wir.Result]) -> Generator[None]:
        """Append ``for (;;)``."""
        with self._context.braces(fragment("for (;;) ")):
            yield

    def enter(self) -> None:
        """Begin a block: its variables are in braces already."""

    def leave(self) -> None:
        """End a block."""

    def emit_lines(self, lines: Sequence[wir.BodyLine], path: LinePath) -> None:
        """Append the lines of a block."""
        self._emit_lines(lines, path)

    def bind(self, parameter: wir.BlockParameter, operand: wir.KernelArgument) -> None:
        """Append the variable of a parameter."""
        context, type = self._context, parameter.type
        name = context.declare(parameter.name, type)
        if isinstance(type, wir.TensorType | wir.PoolType):
            assert isinstance(operand, wir.BufferRef)  # verified
            context.writer.emit_line("{} = {};", name, context.values[operand.name])
        elif isinstance(type, wir.ScalarType):
            value = context.format_value(operand, type)
            context.writer.emit_line("{} = {};", name, value)

    def lend_result(self, parameter: wir.BlockParameter, result: wir.Result) -> None:
        """Let a parameter be the loop's variable."""
        self._context.values[parameter.name] = self._context.values[result.name]

    def emit_results(self, results: Sequence[wir.Result], block: wir.Block) -> None:
        """Append the moves of a block's results, and drop the block's names.

        All results are named before any is dropped, as one may be returned twice.  The
        memory of an earlier iteration, which a loop's variable still names, is dropped.
        """
        context, moved = self._context, list[tuple[Fragment, Fragment, bool]]()
        for result, value in zip(results, block.results, strict=True):
            name, type = context.values[result.name], result.type
            new = context.names.claim(f"{result.name}_next")
            is_memory = isinstance(type, wir.TensorType)
            if is_memory:
                assert isinstance(value, wir.BufferRef)  # verified
                context.writer.emit_line("wir_tensor {} = wir_none();", new)
                source = context.values[value.name]
                context.emit_step("wir_share(r, &{}, {})", new, source)
            elif isinstance(type, wir.ScalarType):
                number = context.format_value(value, type)
                kind = fragment(C_KINDS[kind_of(type.dtype)])
                context.writer.emit_line("{} {} = {};", kind, new, number)
            else:
                context.report(f"%{result.name} is neither a tensor nor a number")
            moved.append((name, new, is_memory))
        context.emit_step('wir_check(r, 1, "")')
        for dropped in own_results(block, context.facts.constants):
            type = context.facts.types[dropped]
            if isinstance(type, wir.TensorType | wir.PoolType):
                context.writer.emit_line("wir_drop(r, &{});", context.values[dropped])
        for name, new, is_memory in moved:
            if is_memory:
                context.writer.emit_line("wir_drop(r, &{});", name)
            context.writer.emit_line("{} = {};", name, new)

    def emit_carried(
        self, results: Sequence[wir.Result], carried: Sequence[wir.KernelArgument]
    ) -> None:
        """Append the copies with which a loop begins, so that no result is an operand."""
        context = self._context
        for result, operand in zip(results, carried, strict=True):
            type = result.type
            name = context.declare(result.name, type)
            if isinstance(type, wir.TensorType):
                assert isinstance(operand, wir.BufferRef)  # verified
                source = context.values[operand.name]
                offset, span = context.format_offset(type), context.format_span(type)
                place = context.format_place(type)
                step = "wir_allocate(r, &{}, {}, {}, {})"
                context.emit_step(step, name, place, offset, span)
                item = format_int(type.dtype.itemsize)
                stride = context.format_array(type.stride)
                parts = (name, source, item, context.format_layout(type), stride)
                context.emit_step("wir_copy(r, &{}, &{}, {}, {}, {})", *parts)
            elif isinstance(type, wir.ScalarType):
                value = context.format_value(operand, type)
                context.writer.emit_line("{} = {};", name, value)

    def emit_exit(self, condition: wir.Block) -> None:
        """Append the end of the loop where the condition does not hold."""
        (result,) = condition.results
        assert isinstance(result, int | float | wir.Symbol | wir.Operation | wir.BufferRef)
        test = self.format_predicate(result)
        for name in own_results(condition, self._context.facts.constants):
            self._context.writer.emit_line("wir_drop(r, &{});", self._context.values[name])
        self._context.writer.emit_line("if (!{}) break;", test)
