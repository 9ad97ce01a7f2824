"""Builds the lines of a block: each method appends one and returns what it defines."""

from collections.abc import Callable, Sequence
from typing import Self, TypeAlias

from wrapperir.ir.expr import Expr, Symbol
from wrapperir.ir.line import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    Block,
    BlockParameter,
    BufferRef,
    CommentLine,
    ConditionalLine,
    DefinitionLine,
    ExternKernelLine,
    KernelCallLine,
    MultiOutputLine,
    RecordEventLine,
    Result,
    SubgraphCallLine,
    SymbolDefinitionLine,
    SymbolKind,
    SymbolSource,
    WaitEventLine,
    WhileLoopLine,
)
from wrapperir.ir.memory_builder import MemoryBuilder
from wrapperir.ir.operands import (
    KernelOperand,
    Operand,
    Value,
    as_argument,
    as_kernel_argument,
)
from wrapperir.ir.types import CPU, Device, EventType, ValueType

BlockBody: TypeAlias = Callable[..., Sequence[Operand] | Operand]
"""Fills a nested block: takes the block's builder and a value for each parameter."""


class BlockBuilder(MemoryBuilder):
    """Appends lines of every kind to one block."""

    def call(
        self,
        kernel: DefinitionLine | str,
        *arguments: KernelOperand,
        device: Device = CPU,
        stream: int = 0,
    ) -> Self:
        """Launch a kernel or multi-kernel."""
        self._append(
            KernelCallLine(
                kernel=kernel if isinstance(kernel, str) else kernel.name,
                arguments=tuple(as_kernel_argument(a) for a in arguments),
                device=device,
                stream=stream,
                provenance=self._provenance,
            )
        )
        return self

    def extern(
        self,
        operator: str,
        *arguments: Operand,
        type: ValueType,
        name: str | None = None,
        writes: Sequence[Value] = (),
        aliases: Sequence[Value] = (),
        device: Device = CPU,
        stream: int = 0,
        **keywords: Operand,
    ) -> Value:
        """Call an operator that returns a value."""
        result = self._names.new(name, "buf")
        self._extern(
            result, type, operator, arguments, keywords, writes, aliases, device, stream
        )
        return Value(result, type)

    def extern_out(
        self,
        operator: str,
        *arguments: Operand,
        writes: Sequence[Value] = (),
        device: Device = CPU,
        stream: int = 0,
        **keywords: Operand,
    ) -> Self:
        """Call an operator for its effect; an ``out`` value is among its writes."""
        out = keywords.get("out")
        written = [*writes, out] if isinstance(out, Value) else list(writes)
        self._extern(None, None, operator, arguments, keywords, written, (), device, stream)
        return self

    def multi_output(
        self, source: Value, *indices: int, type: ValueType, name: str | None = None
    ) -> Value:
        """Name one result of an operator that returned several."""
        result = self._names.new(name, "buf")
        self._append(
            MultiOutputLine(
                result=result,
                source=source.name,
                indices=indices,
                type=type,
                provenance=self._provenance,
            )
        )
        return Value(result, type)

    def record_event(
        self, device: Device = CPU, *, stream: int = 0, name: str | None = None
    ) -> Value:
        """Name the point that a stream's work has reached."""
        result = self._names.new(name, "event")
        self._append(
            RecordEventLine(
                result=result, device=device, stream=stream, provenance=self._provenance
            )
        )
        return Value(result, EventType(device))

    def wait_event(self, event: Value, device: Device = CPU, *, stream: int = 0) -> Self:
        """Have what follows on a stream wait until ``event`` is reached."""
        self._append(
            WaitEventLine(
                event=event.name, device=device, stream=stream, provenance=self._provenance
            )
        )
        return self

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
            SymbolDefinitionLine(
                symbol=name,
                kind=kind,
                lower=lower,
                upper=upper,
                source=source,
                provenance=self._provenance,
            )
        )
        return Symbol(name)

    def assert_size_stride(
        self, value: Value, size: Sequence[Expr], stride: Sequence[Expr], message: str = ""
    ) -> Self:
        """Check a tensor's size and stride."""
        self._append(
            AssertSizeStrideLine(
                buffer=value.name,
                size=tuple(size),
                stride=tuple(stride),
                message=message,
                provenance=self._provenance,
            )
        )
        return self

    def assert_alignment(self, value: Value, bytes: int, message: str = "") -> Self:
        """Check a tensor's alignment in bytes."""
        self._append(
            AssertAlignmentLine(
                buffer=value.name, bytes=bytes, message=message, provenance=self._provenance
            )
        )
        return self

    def assert_scalar(self, condition: Expr, message: str = "") -> Self:
        """Check a condition."""
        self._append(
            AssertScalarLine(
                condition=condition, message=message, provenance=self._provenance
            )
        )
        return self

    def assert_not_nan(self, value: Value, message: str = "") -> Self:
        """Check that a tensor holds no NaN and no infinity."""
        self._append(
            AssertNotNanLine(
                buffer=value.name, message=message, provenance=self._provenance
            )
        )
        return self

    def conditional(
        self,
        predicate: KernelOperand,
        operands: Sequence[Value],
        on_true: BlockBody,
        on_false: BlockBody,
        *,
        results: Sequence[ValueType],
    ) -> tuple[Value, ...]:
        """Run one of two blocks; each is filled by a function of (block, *parameters)."""
        values = self._results(results)
        self._append(
            ConditionalLine(
                results=tuple(Result(v.name, v.type) for v in values),
                predicate=as_kernel_argument(predicate),
                operands=tuple(BufferRef(v.name) for v in operands),
                on_true=self._block(on_true, operands),
                on_false=self._block(on_false, operands),
                provenance=self._provenance,
            )
        )
        return values

    def while_loop(
        self,
        carried: Sequence[Value],
        condition: BlockBody,
        body: BlockBody,
        *,
        invariant: Sequence[Value] = (),
    ) -> tuple[Value, ...]:
        """Run ``body`` while ``condition`` holds; results have the carried types."""
        values = self._results([value.type for value in carried])
        operands = [*carried, *invariant]
        self._append(
            WhileLoopLine(
                results=tuple(Result(v.name, v.type) for v in values),
                carried=tuple(BufferRef(v.name) for v in carried),
                invariant=tuple(BufferRef(v.name) for v in invariant),
                condition=self._block(condition, operands),
                body=self._block(body, operands),
                provenance=self._provenance,
            )
        )
        return values

    def subgraph_call(
        self,
        name: str,
        operands: Sequence[Value],
        body: BlockBody,
        *,
        results: Sequence[ValueType],
    ) -> tuple[Value, ...]:
        """Run a named block."""
        values = self._results(results)
        self._append(
            SubgraphCallLine(
                results=tuple(Result(v.name, v.type) for v in values),
                name=name,
                operands=tuple(BufferRef(v.name) for v in operands),
                body=self._block(body, operands),
                provenance=self._provenance,
            )
        )
        return values

    def comment(self, text: str) -> Self:
        """Leave a remark."""
        self._append(CommentLine(text=text, provenance=self._provenance))
        return self

    def _extern(
        self,
        result: str | None,
        type: ValueType | None,
        operator: str,
        arguments: Sequence[Operand],
        keywords: dict[str, Operand],
        writes: Sequence[Value],
        aliases: Sequence[Value],
        device: Device,
        stream: int,
    ) -> None:
        self._append(
            ExternKernelLine(
                result=result,
                type=type,
                operator=operator,
                arguments=tuple(as_argument(a) for a in arguments),
                keywords=tuple((k, as_argument(v)) for k, v in keywords.items()),
                writes=tuple(v.name for v in writes),
                aliases=tuple(v.name for v in aliases),
                device=device,
                stream=stream,
                provenance=self._provenance,
            )
        )

    def _results(self, types: Sequence[ValueType]) -> tuple[Value, ...]:
        return tuple(Value(self._names.new(None, "buf"), type) for type in types)

    def _block(self, fill: BlockBody, operands: Sequence[Value]) -> Block:
        block = BlockBuilder(self._names)
        parameters = [Value(self._names.new(None, "arg"), v.type) for v in operands]
        returned = as_argument(fill(block, *parameters))
        return Block(
            parameters=tuple(BlockParameter(p.name, p.type) for p in parameters),
            lines=tuple(block._lines),
            results=returned if isinstance(returned, tuple) else (returned,),
        )
