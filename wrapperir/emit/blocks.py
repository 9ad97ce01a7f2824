"""The skeleton of lines with nested blocks, for targets with ``if``, ``while``, ``break``.

Blocks are written in place: the names of a program are unique.  A block's parameters are
borrowed, so they stand for their operands and are never dropped; its results become those
of the line, and its own names are dropped.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from wrapperir.diagnostics import LinePath
from wrapperir.emit.context import Emission
from wrapperir.emit.source_text import Fragment
from wrapperir.ir import (
    Block,
    BlockParameter,
    BodyLine,
    BufferRef,
    ConditionalLine,
    GraphRegionLine,
    KernelArgument,
    Result,
    SubgraphCallLine,
    WhileLoopLine,
)

MAX_NESTING = 16
"""Blocks inside blocks; Python compiles at most 20 nested loops and ``with``, and
the FX emitter's calls nest as deep as the blocks."""


def is_too_deep(emission: Emission) -> bool:
    """Refuse the current line if it is nested too deep, and say whether it is."""
    deep = sum(part == "lines" for part in emission.path) > MAX_NESTING
    if deep:
        emission.report(f"blocks are nested deeper than {MAX_NESTING}")
    return deep


def own_results(block: Block, constants: frozenset[str]) -> list[str]:
    """Return the names that a block returns and owns, each once: it drops these."""
    borrowed = {parameter.name for parameter in block.parameters} | constants
    names = dict.fromkeys(x.name for x in block.results if isinstance(x, BufferRef))
    return [name for name in names if name not in borrowed]


class BlockEmitter(ABC):
    """Emits lines with blocks; a target says how each part is written."""

    def __init__(self, emission: Emission) -> None:
        """Emit the blocks of the current line of ``emission``."""
        self._emission = emission

    def emit_conditional(self, line: ConditionalLine) -> None:
        """Append ``if`` and ``else`` with the lines of both blocks."""
        if is_too_deep(self._emission):
            return
        path = self._emission.path
        with self.branch(self.format_predicate(line.predicate)):
            self._emit_block(line.on_true, (*path, "on_true"), line.operands, line.results)
        with self.otherwise():
            self._emit_block(
                line.on_false, (*path, "on_false"), line.operands, line.results
            )

    def emit_subgraph(self, line: SubgraphCallLine | GraphRegionLine) -> None:
        """Append the lines of the block."""
        if is_too_deep(self._emission):
            return
        path = (*self._emission.path, "body")
        self._emit_block(line.body, path, line.operands, line.results)

    def emit_while_loop(self, line: WhileLoopLine) -> None:
        """Append a loop; the results are the loop's variables until it ends.

        The results of an iteration are dropped when the next one has replaced them.
        Without an iteration, the results are copies of the carried operands.
        """
        if is_too_deep(self._emission):
            return
        path, count = self._emission.path, len(line.carried)
        last, stacks = line.results[:count], line.results[count:]
        self.emit_carried(last, line.carried)
        if stacks:
            self.begin_stacks(stacks)
        with self.loop(last):
            for block in (line.condition, line.body):
                for parameter, result in zip(block.parameters, last, strict=False):
                    self.lend_result(parameter, result)
            self.enter()
            self._bind(line.condition.parameters[count:], line.invariant)
            self.emit_lines(line.condition.lines, (*path, "condition", "lines"))
            self.emit_exit(line.condition)
            self.enter()
            self._bind(line.body.parameters[count:], line.invariant)
            self.emit_lines(line.body.lines, (*path, "body", "lines"))
            self.emit_results(last, line.body)
            for stack, result in zip(stacks, last, strict=False):
                self.emit_pushed(stack, result)
            self.leave()
        for stack, result in zip(stacks, last, strict=False):
            self.emit_stack(stack, result)

    def _emit_block(
        self,
        block: Block,
        path: LinePath,
        operands: Sequence[KernelArgument],
        results: Sequence[Result],
    ) -> None:
        self.enter()
        self._bind(block.parameters, operands)
        self.emit_lines(block.lines, (*path, "lines"))
        self.emit_results(results, block)
        self.leave()

    def _bind(
        self, parameters: Sequence[BlockParameter], operands: Sequence[KernelArgument]
    ) -> None:
        for parameter, operand in zip(parameters, operands, strict=True):
            self.bind(parameter, operand)

    @abstractmethod
    def format_predicate(self, predicate: KernelArgument) -> Fragment:
        """Return the test of a condition, which is an expression or a value's name."""

    @abstractmethod
    def branch(self, test: Fragment) -> AbstractContextManager[None]:
        """Append the lines of the ``with`` block where a test is true."""

    @abstractmethod
    def otherwise(self) -> AbstractContextManager[None]:
        """Append the lines of the ``with`` block where the last branch is not taken."""

    @abstractmethod
    def loop(self, results: Sequence[Result]) -> AbstractContextManager[None]:
        """Repeat the lines of the ``with`` block until one of them breaks.

        After a loop without an iteration, tensors among the results are copied.
        """

    @abstractmethod
    def enter(self) -> None:
        """Begin a block."""

    @abstractmethod
    def leave(self) -> None:
        """End a block: drop the views that it made."""

    @abstractmethod
    def emit_lines(self, lines: Sequence[BodyLine], path: LinePath) -> None:
        """Append the lines of a block."""

    @abstractmethod
    def bind(self, parameter: BlockParameter, operand: KernelArgument) -> None:
        """Bind a parameter to its operand, as a number of the parameter's type."""

    @abstractmethod
    def lend_result(self, parameter: BlockParameter, result: Result) -> None:
        """Bind a parameter to a result of the loop."""

    @abstractmethod
    def emit_carried(
        self, results: Sequence[Result], carried: Sequence[KernelArgument]
    ) -> None:
        """Append that the results of a loop begin as its carried operands."""

    @abstractmethod
    def emit_results(self, results: Sequence[Result], block: Block) -> None:
        """Append that a block's results become the line's; drop the block's names."""

    def begin_stacks(self, stacks: Sequence[Result]) -> None:
        """Append an empty list for each stack of a loop's values; by default, refuse."""
        self._emission.report("loops that stack their values are not supported")

    def emit_pushed(self, stack: Result, result: Result) -> None:  # noqa: B027
        """Append that the list of ``stack`` gets the value that ``result`` has now."""

    def emit_stack(self, stack: Result, result: Result) -> None:  # noqa: B027
        """Append a tensor of the values in a list; of ``result`` alone if it is empty."""

    @abstractmethod
    def emit_exit(self, condition: Block) -> None:
        """Append the end of a loop where its condition is false; leave the condition."""
