"""Builds the lines of a block: each method appends one and returns what it defines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self, TypeAlias

from attrs import evolve

from wrapperir.ir import line as lines
from wrapperir.ir.arguments import SymbolKind, SymbolSource
from wrapperir.ir.definition import DefinitionLine
from wrapperir.ir.event_builder import EventBuilder
from wrapperir.ir.expr import Expr, Symbol
from wrapperir.ir.kernel import ZeroMode
from wrapperir.ir.operands import (
    KernelOperand,
    NamedValue,
    Operand,
    OperatorObject,
    as_argument,
    as_kernel_argument,
    name_of,
    names_of,
    operator_name,
)
from wrapperir.ir.types import CPU, Device, PoolType, TensorType, ValueType

BlockBody: TypeAlias = Callable[..., Sequence[Operand] | Operand]
"""Fills a nested block: takes the block's builder and a value for each parameter."""


class BlockBuilder(EventBuilder):
    """Appends lines of every kind to one block.

    The name of a result is generated where ``name`` is not given.
    """

    def allocate(
        self,
        type: TensorType,
        *,
        name: str | None = None,
        workspace: ZeroMode | None = None,
    ) -> NamedValue:
        """Allocate a buffer, or with a zero mode a workspace."""
        value = self._value(name, "buf", type)
        return self._define(
            value, lines.AllocateLine(result=value.name, type=type, workspace=workspace)
        )

    def allocate_pool(self, type: PoolType, *, name: str | None = None) -> NamedValue:
        """Allocate memory to place buffers in."""
        value = self._value(name, "pool", type)
        return self._define(value, lines.AllocatePoolLine(result=value.name, type=type))

    def place(
        self,
        pool: NamedValue,
        offset: Expr,
        type: TensorType | PoolType,
        *,
        name: str | None = None,
        workspace: ZeroMode | None = None,
    ) -> NamedValue:
        """Begin a buffer, or a smaller pool, at byte ``offset`` of ``pool``."""
        value = self._value(name, "buf" if isinstance(type, TensorType) else "pool", type)
        line = lines.PlaceLine(
            result=value.name,
            type=type,
            pool=name_of(pool),
            offset=offset,
            workspace=workspace,
        )
        return self._define(value, line)

    def free(self, *values: NamedValue) -> Self:
        """Drop names."""
        for value in values:
            self._append(lines.FreeLine(buffer=name_of(value)))
        return self

    def reuse(
        self, source: NamedValue, type: TensorType, *, name: str | None = None
    ) -> NamedValue:
        """Give the memory of ``source`` a new name and type; ``source`` is dropped."""
        value = self._value(name, "buf", type)
        return self._define(
            value, lines.ReuseLine(result=value.name, source=name_of(source), type=type)
        )

    def reinterpret(
        self, source: NamedValue, type: TensorType, *, name: str | None = None
    ) -> NamedValue:
        """Name a view of ``source``."""
        value = self._value(name, "view", type)
        return self._define(
            value,
            lines.ReinterpretLine(result=value.name, source=name_of(source), type=type),
        )

    def call(
        self,
        kernel: DefinitionLine | str,
        *arguments: KernelOperand,
        device: Device = CPU,
        stream: int = 0,
    ) -> Self:
        """Launch a kernel or multi-kernel."""
        line = lines.KernelCallLine(
            kernel=kernel if isinstance(kernel, str) else kernel.name,
            arguments=tuple(as_kernel_argument(a) for a in arguments),
            device=device,
            stream=stream,
        )
        return self._append(line)

    def extern(
        self,
        operator: str | OperatorObject,
        *arguments: Operand,
        type: ValueType,
        name: str | None = None,
        writes: Sequence[NamedValue] = (),
        aliases: Sequence[NamedValue] = (),
        device: Device = CPU,
        stream: int = 0,
        **keywords: Operand,
    ) -> NamedValue:
        """Call an operator that returns a value."""
        value = self._value(name, "buf", type)
        line = evolve(
            _operator_call(operator, arguments, keywords, writes, device, stream),
            result=value.name,
            type=type,
            aliases=tuple(map(name_of, aliases)),
        )
        return self._define(value, line)

    def extern_out(
        self,
        operator: str | OperatorObject,
        *arguments: Operand,
        writes: Sequence[NamedValue] = (),
        device: Device = CPU,
        stream: int = 0,
        **keywords: Operand,
    ) -> Self:
        """Call an operator for its effect; an ``out`` value is among its writes."""
        out = keywords.get("out")
        writes = [*writes, out] if isinstance(out, NamedValue) else writes
        return self._append(
            _operator_call(operator, arguments, keywords, writes, device, stream)
        )

    def multi_output(
        self, source: NamedValue, *indices: int, type: ValueType, name: str | None = None
    ) -> NamedValue:
        """Name one result of an operator that returned several."""
        value = self._value(name, "buf", type)
        line = lines.MultiOutputLine(
            result=value.name, source=name_of(source), indices=indices, type=type
        )
        return self._define(value, line)

    def define_symbol(
        self,
        name: str,
        source: SymbolSource,
        *,
        kind: SymbolKind = SymbolKind.INT,
        lower: int | None = None,
        upper: int | None = None,
    ) -> Symbol:
        """Define a symbol in the body."""
        self._append(
            lines.SymbolDefinitionLine(
                symbol=name, kind=kind, lower=lower, upper=upper, source=source
            )
        )
        return Symbol(name)

    def assert_size_stride(
        self,
        value: NamedValue,
        size: Sequence[Expr],
        stride: Sequence[Expr],
        message: str = "",
    ) -> Self:
        """Check a tensor's size and stride."""
        line = lines.AssertSizeStrideLine(
            buffer=name_of(value), size=tuple(size), stride=tuple(stride), message=message
        )
        return self._append(line)

    def assert_alignment(self, value: NamedValue, bytes: int, message: str = "") -> Self:
        """Check a tensor's alignment in bytes."""
        return self._append(
            lines.AssertAlignmentLine(buffer=name_of(value), bytes=bytes, message=message)
        )

    def assert_scalar(self, condition: Expr, message: str = "") -> Self:
        """Check a condition."""
        return self._append(lines.AssertScalarLine(condition=condition, message=message))

    def assert_not_nan(self, value: NamedValue, message: str = "") -> Self:
        """Check that a tensor holds no NaN and no infinity."""
        return self._append(lines.AssertNotNanLine(buffer=name_of(value), message=message))

    def conditional(
        self,
        predicate: KernelOperand,
        operands: Sequence[NamedValue],
        on_true: BlockBody,
        on_false: BlockBody,
        *,
        results: Sequence[ValueType],
    ) -> tuple[NamedValue, ...]:
        """Run one of two blocks; each is filled by a function of (block, *parameters)."""
        named = self._results(results)
        line = lines.ConditionalLine(
            results=named,
            predicate=as_kernel_argument(predicate),
            operands=names_of(operands),
            on_true=self._block(on_true, operands),
            on_false=self._block(on_false, operands),
        )
        return self._define_all(named, line)

    def while_loop(
        self,
        carried: Sequence[NamedValue],
        condition: BlockBody,
        body: BlockBody,
        *,
        invariant: Sequence[NamedValue] = (),
        stacks: Sequence[ValueType] = (),
    ) -> tuple[NamedValue, ...]:
        """Run ``body`` while ``condition`` holds; results have the carried types.

        With ``stacks``, as many further results have the values of all iterations.
        """
        named = self._results([*(value.type for value in carried), *stacks])
        operands = [*carried, *invariant]
        line = lines.WhileLoopLine(
            results=named,
            carried=names_of(carried),
            invariant=names_of(invariant),
            stacked=bool(stacks),
            condition=self._block(condition, operands),
            body=self._block(body, operands),
        )
        return self._define_all(named, line)

    def subgraph_call(
        self,
        name: str,
        operands: Sequence[NamedValue],
        body: BlockBody,
        *,
        results: Sequence[ValueType],
    ) -> tuple[NamedValue, ...]:
        """Run a named block."""
        named = self._results(results)
        line = lines.SubgraphCallLine(
            results=named,
            name=name,
            operands=names_of(operands),
            body=self._block(body, operands),
        )
        return self._define_all(named, line)

    def graph_region(
        self,
        name: str,
        operands: Sequence[NamedValue],
        body: BlockBody,
        *,
        results: Sequence[ValueType],
        device: Device = CPU,
        stream: int = 0,
        recordings: int = lines.RECORDINGS,
    ) -> tuple[NamedValue, ...]:
        """Run a named block that a device may record and replay."""
        named = self._results(results)
        line = lines.GraphRegionLine(
            results=named,
            name=name,
            operands=names_of(operands),
            device=device,
            stream=stream,
            recordings=recordings,
            body=self._block(body, operands),
        )
        return self._define_all(named, line)

    def comment(self, text: str) -> Self:
        """Add a comment."""
        return self._append(lines.CommentLine(text=text))

    def _results(self, types: Iterable[ValueType]) -> tuple[lines.Result, ...]:
        return tuple(lines.Result(self._names.new(None, "buf"), type) for type in types)

    def _define_all(
        self, results: Iterable[lines.Result], line: lines.BodyLine
    ) -> tuple[NamedValue, ...]:
        self._append(line)
        return tuple(NamedValue(result.name, result.type) for result in results)

    def _block(self, fill: BlockBody, operands: Iterable[NamedValue]) -> lines.Block:
        block = BlockBuilder(self._names)
        parameters = [self._value(None, "arg", operand.type) for operand in operands]
        returned = as_argument(fill(block, *parameters))
        return lines.Block(
            parameters=tuple(lines.BlockParameter(p.name, p.type) for p in parameters),
            lines=tuple(block._lines),
            results=returned if isinstance(returned, tuple) else (returned,),
        )


def _operator_call(
    operator: str | OperatorObject,
    arguments: Iterable[Operand],
    keywords: Mapping[str, Operand],
    writes: Iterable[NamedValue],
    device: Device,
    stream: int,
) -> lines.ExternKernelLine:
    return lines.ExternKernelLine(
        operator=operator_name(operator),
        arguments=tuple(as_argument(a) for a in arguments),
        keywords=tuple((key, as_argument(a)) for key, a in keywords.items()),
        writes=tuple(map(name_of, writes)),
        device=device,
        stream=stream,
    )
