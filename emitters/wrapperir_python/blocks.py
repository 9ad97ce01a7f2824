"""Lines with nested blocks in Python."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.emit import Fragment, joined
from wrapperir.emit.blocks import BlockEmitter, own_results
from wrapperir_python.context import PythonContext
from wrapperir_python.pools import leave_block


class PythonBlocks(BlockEmitter):
    """Emits ``if``, ``else`` and ``while`` with the lines of their blocks."""

    def __init__(self, context: PythonContext) -> None:
        """Emit the blocks of the current line."""
        super().__init__(context)
        self._context = context
        self._values = context.values
        self._writer = context.writer
        self._is_assigned = False
        self._lists: dict[str, Fragment] = {}

    def format_predicate(self, predicate: wir.KernelArgument) -> Fragment:
        """Return the test of a condition."""
        if isinstance(predicate, wir.BufferRef):
            return self._values[predicate.name]
        return self._context.expressions.format_condition(predicate)

    @contextmanager
    def branch(self, test: Fragment) -> Generator[None]:
        """Append ``if``."""
        self._writer.emit_line("if {}:", test)
        with self._indented():
            yield

    @contextmanager
    def otherwise(self) -> Generator[None]:
        """Append ``else``."""
        self._writer.emit_line("else:")
        with self._indented():
            yield

    @contextmanager
    def _indented(self) -> Generator[None]:
        with self._writer.indented():
            self._is_assigned = False
            yield
            if not self._is_assigned:
                self._writer.emit_line("pass")

    @contextmanager
    def loop(self, results: Sequence[wir.Result]) -> Generator[None]:
        """Append ``while``; without an iteration, tensors become copies."""
        writer = self._writer
        first = self._context.module.names.claim("first")
        writer.emit_line("{} = True", first)
        writer.emit_line("while True:")
        with writer.indented():
            yield
            writer.emit_line("{} = False", first)
        tensors = [(self._values[x.name], x.type) for x in results]
        if any(isinstance(type, wir.TensorType) for _, type in tensors):
            writer.emit_line("if {}:", first)
        with writer.indented():
            for tensor, type in tensors:
                if isinstance(type, wir.TensorType):
                    copy = self._context.format_allocation(type)
                    writer.emit_line("{} = {}.copy_({})", tensor, copy, tensor)

    def enter(self) -> None:
        """Begin a block."""
        self._context.pools.enter()

    def leave(self) -> None:
        """End a block: drop the views of pools that it made."""
        leave_block(self._context)

    def emit_lines(self, lines: Sequence[wir.BodyLine], path: LinePath) -> None:
        """Append the lines of a block."""
        self._context.emit_lines(lines, path)

    def bind(self, parameter: wir.BlockParameter, operand: wir.KernelArgument) -> None:
        """Bind a parameter to its operand; a converted number is assigned."""
        if isinstance(parameter.type, wir.PoolType):
            assert isinstance(operand, wir.BufferRef)  # verified
            self._context.pools.lend(parameter.name, operand.name)
            return
        value = self._context.format_operand(operand, parameter.type)
        if isinstance(operand, wir.BufferRef) and value == self._values[operand.name]:
            self._values[parameter.name] = value
        else:
            self._writer.emit_line("{} = {}", self._values[parameter.name], value)

    def lend_result(self, parameter: wir.BlockParameter, result: wir.Result) -> None:
        """Bind a parameter to the loop's variable."""
        self._values[parameter.name] = self._values[result.name]

    def emit_carried(
        self, results: Sequence[wir.Result], carried: Sequence[wir.KernelArgument]
    ) -> None:
        """Append ``i = i0`` for each variable of a loop."""
        targets = [self._values[result.name] for result in results]
        for target, result, operand in zip(targets, results, carried, strict=True):
            value = self._context.format_operand(operand, result.type)
            self._writer.emit_line("{} = {}", target, value)

    def emit_results(self, results: Sequence[wir.Result], block: wir.Block) -> None:
        """Append the assignment of a block's results, and drop the block's names."""
        self._is_assigned = bool(results)
        if not results:
            return
        targets = [self._values[result.name] for result in results]
        values = [
            self._context.format_operand(value, result.type)
            for value, result in zip(block.results, results, strict=True)
        ]
        self._writer.emit_line("{} = {}", joined(", ", targets), joined(", ", values))
        self._emit_drops(block)

    def begin_stacks(self, stacks: Sequence[wir.Result]) -> None:
        """Append ``values = []`` for each stack."""
        for stack in stacks:
            values = self._context.module.names.claim(f"{stack.name}_values")
            self._lists[stack.name] = values
            self._writer.emit_line("{} = []", values)

    def emit_pushed(self, stack: wir.Result, result: wir.Result) -> None:
        """Append ``values.append(x)``."""
        values, value = self._lists[stack.name], self._values[result.name]
        self._writer.emit_line("{}.append({})", values, value)

    def emit_stack(self, stack: wir.Result, result: wir.Result) -> None:
        """Append ``xs = torch.stack(values or [x]).contiguous(); del values``."""
        values, value = self._lists[stack.name], self._values[result.name]
        self._writer.emit_line(
            "{} = {}.stack({} or [{}]).contiguous(); del {}",
            *(self._values[stack.name], self._context.module.need("torch")),
            *(values, value, values),
        )

    def emit_exit(self, condition: wir.Block) -> None:
        """Append ``if not i < n: break``; a tensor is read before it is dropped."""
        (result,) = condition.results
        if not isinstance(result, wir.BufferRef):
            self.leave()
            assert isinstance(result, int | float | wir.Symbol | wir.Operation)  # verified
            test = self._context.expressions.format_condition(result)
            self._writer.emit_line("if not ({}): break", test)
            return
        go_on = self._context.module.names.claim("go_on")
        self._writer.emit_line("{} = bool({})", go_on, self._values[result.name])
        self._emit_drops(condition)
        self.leave()
        self._writer.emit_line("if not {}: break", go_on)

    def _emit_drops(self, block: wir.Block) -> None:
        own = own_results(block, self._context.facts.constants)
        self._context.emit_moved(own)
        dropped = [self._values[name] for name in own if name not in self._context.pools]
        if dropped:
            self._writer.emit_line("del {}", joined(", ", dropped))
