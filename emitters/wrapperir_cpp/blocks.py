"""Lines with nested blocks in C++."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.emit import Fragment, fragment
from wrapperir.emit.arena import plain_device
from wrapperir.emit.blocks import BlockEmitter, own_results
from wrapperir.emit.number_kinds import kind_of
from wrapperir_cpp.context import Context
from wrapperir_cpp.debugged_values import hide_block, show_values
from wrapperir_cpp.literals import format_converted
from wrapperir_cpp.memory import (
    define_value,
    emit_copy,
    emit_stacking,
    format_owned,
    tensor_address,
    tensor_handle,
)
from wrapperir_cpp.value_storage import Indices, leaves

EmitLines: TypeAlias = Callable[[Sequence[wir.BodyLine], LinePath], None]
"""Appends the lines of a block; the path is their place in the program."""


class CppBlocks(BlockEmitter):
    """Emits ``if``, ``else`` and ``while`` with the lines of their blocks."""

    def __init__(
        self, context: Context, results: Sequence[wir.Result], emit_lines: EmitLines
    ) -> None:
        """Emit the blocks of the current line, which defines ``results``."""
        super().__init__(context)
        self._context = context
        self._emit_lines = emit_lines
        self._is_loop = False
        self._lists: dict[str, Fragment] = {}
        # One for each part of a tuple.
        self._parts = [part for result in results for _, part in leaves(result.type)]
        self._targets = [
            define_value(context, result.name, indices)
            for result in results
            for indices, _ in leaves(result.type)
        ]

    def emit_conditional(self, line: wir.ConditionalLine) -> None:
        """Append both blocks; results keep layouts that are certain in both."""
        super().emit_conditional(line)
        self._keep_layouts(line.results, line.on_true, line.on_false)

    def emit_subgraph(self, line: wir.SubgraphCallLine | wir.GraphRegionLine) -> None:
        """Append the lines of the block; its results keep layouts that are certain."""
        super().emit_subgraph(line)
        self._keep_layouts(line.results, line.body)

    def _keep_layouts(self, results: Sequence[wir.Result], *blocks: wir.Block) -> None:
        for index, result in enumerate(results):
            given = [block.results[index] for block in blocks]
            names = [x.name if isinstance(x, wir.BufferRef) else "" for x in given]
            if all(map(self._context.has_exact_layout, names)):
                self._context.checked.add(result.name)

    def format_predicate(self, predicate: wir.KernelArgument) -> Fragment:
        """Return the test of a condition."""
        if not isinstance(predicate, wir.BufferRef):
            return self._context.expressions.format_condition(predicate)
        context, name = self._context, predicate.name
        type = context.facts.types[name]
        if isinstance(type, wir.ScalarType):
            return context.values.scalar(name)
        if isinstance(type, wir.TensorType) and plain_device(type.device) == wir.CPU:
            return fragment("*at<bool>({})", tensor_address(context, name))
        handle = tensor_handle(context, name)
        return fragment("item_bool({}, {})", handle, context.line_number())

    @contextmanager
    def branch(self, test: Fragment) -> Generator[None]:
        """Append ``if``."""
        self._context.writer.emit_line("if ({}) {{", test)
        with self._context.writer.indented():
            yield

    @contextmanager
    def otherwise(self) -> Generator[None]:
        """Append ``else``."""
        self._context.writer.emit_line("}} else {{")
        with self._context.writer.indented():
            yield
        self._context.writer.emit_line("}}")

    @contextmanager
    def loop(self, results: Sequence[wir.Result]) -> Generator[None]:
        """Append ``while``; without an iteration, tensors become copies."""
        self._is_loop = True
        writer = self._context.writer
        first = self._context.module.names.claim("first")
        writer.emit_line("bool {} = true;", first)
        writer.emit_line("while (true) {{")
        with writer.indented():
            yield
            writer.emit_line("{} = false;", first)
        writer.emit_line("}}")
        slots = zip(self._targets, self._parts, strict=True)
        tensors = [(slot, part) for slot, part in slots if isinstance(part, wir.TensorType)]
        if tensors:
            writer.emit_line("if ({}) {{", first)
            with writer.indented():
                for slot, type in tensors:
                    emit_copy(self._context, slot, type)
            writer.emit_line("}}")

    def enter(self) -> None:
        """Begin a block."""
        self._context.values.enter()

    def leave(self) -> None:
        """End a block: drop the views that it made."""
        self._context.values.leave()

    def emit_lines(self, lines: Sequence[wir.BodyLine], path: LinePath) -> None:
        """Append the lines of a block."""
        self._emit_lines(lines, path)

    def bind(self, parameter: wir.BlockParameter, operand: wir.KernelArgument) -> None:
        """Let a parameter stand for its operand; a converted number is assigned."""
        context, type = self._context, parameter.type
        if not isinstance(type, wir.ScalarType):
            assert isinstance(operand, wir.BufferRef)  # verified
            context.values.lend(parameter.name, operand.name)
            show_values(context, [parameter.name])
            if context.has_exact_layout(operand.name):
                context.checked.add(parameter.name)
            return
        number = self._format_number(operand, type)
        if isinstance(operand, wir.BufferRef) and number == context.values.scalar(
            operand.name
        ):
            context.values.put_scalar(parameter.name, number)
        else:
            target = define_value(context, parameter.name)
            context.writer.emit_line("{} = {};", target, number)

    def lend_result(self, parameter: wir.BlockParameter, result: wir.Result) -> None:
        """Let a parameter stand for the loop's variable."""
        self.bind(parameter, wir.BufferRef(result.name))

    def emit_carried(
        self, results: Sequence[wir.Result], carried: Sequence[wir.KernelArgument]
    ) -> None:
        """Append that the results of a loop begin as its carried operands."""
        self._emit_assignments(self._format_values(carried, results, keeps=True))

    def emit_results(self, results: Sequence[wir.Result], block: wir.Block) -> None:
        """Append the moves of a block's results, and drop the block's names."""
        hide_block(self._context, block)
        given = self._format_values(block.results, results, keeps=False)
        self._emit_assignments(given, at_once=self._is_loop)
        for name in own_results(block, self._context.facts.constants):
            self._context.values.drop(name)

    def begin_stacks(self, stacks: Sequence[wir.Result]) -> None:
        """Append ``LoopValues values;`` for each stack."""
        for stack in stacks:
            values = self._context.module.names.claim(f"{stack.name}_values")
            self._lists[stack.name] = values
            self._context.writer.emit_line("LoopValues {};", values)

    def emit_pushed(self, stack: wir.Result, result: wir.Result) -> None:
        """Append ``values.push(x)``."""
        self._context.writer.emit_line(
            "{}.push({}, {});",
            *(self._lists[stack.name], tensor_handle(self._context, result.name)),
            self._context.line_number(),
        )

    def emit_stack(self, stack: wir.Result, result: wir.Result) -> None:
        """Append ``values.stack(xs, x, …)``."""
        handle = tensor_handle(self._context, result.name)
        slot = define_value(self._context, stack.name)
        values = self._lists[stack.name]
        emit_stacking(self._context, slot, values, handle, result.type)

    def emit_exit(self, condition: wir.Block) -> None:
        """Append ``if (!(c.i < c.n)) break;``; a tensor is read before it is dropped."""
        (result,) = condition.results
        hide_block(self._context, condition)
        writer = self._context.writer
        if not isinstance(result, wir.BufferRef):
            self.leave()
            assert isinstance(result, int | float | wir.Symbol | wir.Operation)  # verified
            writer.emit_line("if (!({})) break;", self.format_predicate(result))
            return
        go_on = self._context.module.names.claim("go_on")
        writer.emit_line("bool {} = {};", go_on, self.format_predicate(result))
        for name in own_results(condition, self._context.facts.constants):
            self._context.values.drop(name)
        self.leave()
        writer.emit_line("if (!{}) break;", go_on)

    def _format_values(
        self, values: Sequence[wir.Argument], results: Sequence[wir.Result], *, keeps: bool
    ) -> list[Fragment]:
        """Return numbers, and handles to be owned, one for each part of a tuple.

        With ``keeps`` they are further handles, otherwise moved if no other name has them.
        """
        given: list[Fragment] = []
        handles: dict[int, Fragment] = {}
        for value, result in zip(values, results, strict=True):
            for indices, part in leaves(result.type):
                if isinstance(part, wir.ScalarType):
                    given.append(self._format_number(value, part, indices))
                else:
                    assert isinstance(value, wir.BufferRef)  # verified
                    handle = tensor_handle(self._context, value.name, indices)
                    handles[len(given)] = handle
                    given.append(handle)
        owned = format_owned(self._context, list(handles.values()), keeps=keeps)
        for index, handle in zip(handles, owned, strict=True):
            given[index] = handle
        return given

    def _emit_assignments(
        self, values: Sequence[Fragment], *, at_once: bool = False
    ) -> None:
        """Append the assignment of the results; ``at_once``: a value may read a target."""
        writer = self._context.writer
        is_number = [isinstance(part, wir.ScalarType) for part in self._parts]
        late: list[tuple[Fragment, Fragment]] = []
        for number, target, value in zip(is_number, self._targets, values, strict=True):
            if not number:
                writer.emit_line("{}.reset({});", target, value)
            elif at_once and sum(is_number) > 1:
                next = self._context.module.names.claim("next")
                writer.emit_line("const auto {} = {};", next, value)
                late.append((target, next))
            else:
                writer.emit_line("{} = {};", target, value)
        for target, value in late:
            writer.emit_line("{} = {};", target, value)

    def _format_number(
        self, value: wir.Argument, type: wir.ScalarType, indices: Indices = ()
    ) -> Fragment:
        """Return a value, or a part of it, as a number of a type."""
        kind = kind_of(type.dtype)
        if isinstance(value, int | float | wir.Symbol | wir.Operation):
            return self._context.expressions.format_number(value, kind)
        assert isinstance(value, wir.BufferRef)  # verified
        number = self._context.values.scalar(value.name, indices)
        given = dict(leaves(self._context.facts.types[value.name]))[indices]
        assert isinstance(given, wir.ScalarType)
        return format_converted(number, kind_of(given.dtype), kind)
