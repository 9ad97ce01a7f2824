"""Attention of half types on GPUs, as lines of a program say it."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.analysis.arithmetic import UNBOUNDED, Interval, interval_of
from wrapperir.analysis.sizes import symbol_ranges
from wrapperir.ir.blocks import blocks_of, walk_lines
from wrapperir.ir.line_effects import LineEffects, value_types
from wrapperir.ir.mentions import buffers_in, type_symbols

MOST_POSITIONS = 256
"""Queries, and keys, of attention that is worth a kernel of its own."""

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "aten._scaled_dot_product_cudnn_attention.default": (
        *("query", "key", "value", "mask", "log_sum", "dropout", "causal", "debug"),
    ),
    "aten._scaled_dot_product_efficient_attention.default": (
        *("query", "key", "value", "mask", "log_sum", "dropout", "causal"),
    ),
    "aten._scaled_dot_product_flash_attention.default": (
        *("query", "key", "value", "dropout", "causal", "debug"),
    ),
}
"""The parameters of PyTorch's attention, by operator."""

MATRICES = "query", "key", "value"
WIDTHS = 16, 32, 64, 128
"""Elements of rows that one program of a kernel can hold."""

_DTYPES = frozenset({wir.DType.F16, wir.DType.BF16})


@frozen(kw_only=True)
class AttentionCall:
    """Attention without dropout, of which only the first result is used.

    ``query`` and ``out`` have the size (batch, heads, rows, width), ``key`` and ``value``
    (batch, heads, columns, width), and ``mask``, if there is one, that of the scores or 1
    along a dimension other than the last.
    """

    line: wir.ExternKernelLine
    first: wir.MultiOutputLine
    """The line that names the result."""
    refs: tuple[wir.BufferRef, ...]
    """Query, key and value, and the mask if there is one."""
    query: wir.TensorType
    key: wir.TensorType
    value: wir.TensorType
    mask: wir.TensorType | None
    out: wir.TensorType
    width: int
    causal: bool
    scale: float

    @property
    def result(self) -> str:
        """The name of the result."""
        return self.first.result

    @property
    def all_heads(self) -> wir.Expr:
        """The heads of all batches."""
        return wir.mul(self.query.size[0], self.query.size[1])

    @property
    def rows(self) -> wir.Expr:
        """The number of queries."""
        return self.query.size[2]

    @property
    def columns(self) -> wir.Expr:
        """The number of keys."""
        return self.key.size[2]


def _attention(
    line: wir.ExternKernelLine,
    first: wir.MultiOutputLine,
    types: Mapping[str, wir.ValueType],
) -> AttentionCall | None:
    """Return the attention that a line computes, if a kernel of ours could compute it."""
    names = PARAMETERS.get(line.operator, ())
    given = dict(zip(names, line.arguments, strict=False)) | dict(line.keywords)
    if given.get("log_sum") or given.get("dropout") or given.get("debug") or line.writes:
        return None
    refs: list[wir.BufferRef] = []
    tensors: list[wir.TensorType] = []
    mask = given.get("mask")
    for ref in (*map(given.get, MATRICES), *([] if mask is None else [mask])):
        found = types[ref.name] if isinstance(ref, wir.BufferRef) else None
        if not isinstance(found, wir.TensorType) or not _suits(found, line):
            return None
        assert isinstance(ref, wir.BufferRef)
        refs.append(ref)
        tensors.append(found)
    query, key, value, *of_mask = tensors
    out, causal, scale = first.type, given.get("causal", False), given.get("scale")
    batch, heads, rows, width = query.size
    columns = key.size[2]
    if width not in WIDTHS:
        return None
    assert isinstance(width, int)
    known = {symbol for each in tensors for symbol in type_symbols(each)}
    suits = (
        isinstance(out, wir.TensorType)
        and _suits(out, line)
        and out.size == query.size
        and out.offset == 0
        and key.size == value.size == (batch, heads, columns, width)
        and all(
            own in (1, whole)
            for each in of_mask
            for own, whole in zip(each.size, (batch, heads, rows), strict=False)
        )
        and all(each.size[3] == columns for each in of_mask)
        and all(each.dtype is query.dtype for each in (*tensors, out))
        and known.issuperset(type_symbols(out))
    )
    scale = 1 / math.sqrt(width) if scale is None else scale
    if not suits or not isinstance(causal, bool) or not isinstance(scale, int | float):
        return None
    assert isinstance(out, wir.TensorType)
    return AttentionCall(
        line=line,
        first=first,
        refs=tuple(refs),
        query=query,
        key=key,
        value=value,
        mask=of_mask[0] if of_mask else None,
        out=out,
        width=width,
        causal=causal,
        scale=float(scale),
    )


def _suits(type: wir.TensorType, line: wir.ExternKernelLine) -> bool:
    """Say whether a tensor has four dimensions and dense rows, in usual memory of a GPU."""
    usual = type.space == wir.DEFAULT_SPACE and type.layout is None
    return (
        type.device == line.device
        and type.device.kind == "cuda"
        and usual
        and type.dtype in _DTYPES
        and len(type.size) == 4
        and type.stride[3] == 1
    )


@frozen
class Bounds:
    """Intervals of expressions, by the ranges of their symbols."""

    ranges: Mapping[str, Interval]

    def of(self, expr: wir.Expr) -> Interval:
        """Return an interval that holds every value of an expression."""
        return interval_of(expr, lambda name: self.ranges.get(name, UNBOUNDED), {})

    def few(self, size: wir.Expr) -> "Bounds":
        """Return these bounds where a size is one of few positions."""
        if not isinstance(size, wir.Symbol):
            return self
        low, high = self.of(size)
        few = max(low, 1), min(high, MOST_POSITIONS)
        return Bounds({**self.ranges, size.name: few})


_KnownPredicate: TypeAlias = tuple[wir.KernelArgument, bool]
"""The predicate of a conditional, and whether it holds."""


@frozen
class AttentionFacts:
    """Facts of a program that tell which attention is of few positions."""

    types: Mapping[str, wir.ValueType]
    bounds: Bounds
    uses: Counter[str]
    """How often each name is used, other than by a ``free``."""
    known: Mapping[str, _KnownPredicate]
    """For results of operators in a conditional, what is known of its predicate."""

    @classmethod
    def of_program(cls, program: wir.Program) -> "AttentionFacts":
        """Return the facts of a program; linear in it."""
        bounds = Bounds(symbol_ranges(program))
        return cls(value_types(program), bounds, _uses(program), _known(program))

    def calls(self, lines: Sequence[wir.BodyLine]) -> dict[str, AttentionCall]:
        """Return the attention in a block, by the name of all its results.

        Tensors are plain, of one half type, on one CUDA device, with dense rows of one of
        :data:`WIDTHS` elements.
        """
        firsts = {
            line.source: line
            for line in lines
            if isinstance(line, wir.MultiOutputLine)
            if line.indices == (0,) and self.uses[line.source] == 1
        }
        found: dict[str, AttentionCall] = {}
        for line in lines:
            if isinstance(line, wir.ExternKernelLine) and line.result in firsts:
                call = _attention(line, firsts[line.result], self.types)
                if call is not None:
                    found[line.result] = call
        return found

    def has_few_positions(self, call: AttentionCall) -> wir.Expr | bool:
        """Return whether a call has few queries and keys; a condition if not known.

        These are 1 at least and :data:`MOST_POSITIONS` at most.
        """
        unknown: list[wir.Expr] = []
        for size in (call.rows, call.columns):
            low, high = self.bounds.of(size)
            if high < 1 or low > MOST_POSITIONS:
                return False
            if low < 1:
                unknown.append(wir.compare(wir.ExprOp.GE, size, 1))
            if high > MOST_POSITIONS:
                unknown.append(wir.compare(wir.ExprOp.LE, size, MOST_POSITIONS))
            if call.rows == call.columns:
                break
        if not unknown:
            return True
        several = len(unknown) > 1
        condition = wir.Operation(wir.ExprOp.AND, (*unknown,)) if several else unknown[0]
        predicate, holds = self.known.get(call.first.source, (None, False))
        return holds if predicate == condition else condition


def has_attention(program: wir.Program) -> bool:
    """Say whether a program calls attention."""
    lines = walk_lines(program.lines)
    return any(
        isinstance(x, wir.ExternKernelLine) and x.operator in PARAMETERS for x in lines
    )


def _uses(program: wir.Program) -> Counter[str]:
    uses: Counter[str] = Counter()
    effects = LineEffects(None)
    results = [*program.outputs]
    for line in walk_lines(program.lines):
        results += (result for block in blocks_of(line) for result in block.results)
        if not isinstance(line, wir.FreeLine):
            uses.update(effects.visit(line).uses)
    for result in results:
        uses.update(buffers_in(result))
    return uses


def _known(program: wir.Program) -> dict[str, _KnownPredicate]:
    return {
        call.result: (line.predicate, holds)
        for line in walk_lines(program.lines)
        if isinstance(line, wir.ConditionalLine)
        for block, holds in ((line.on_true, True), (line.on_false, False))
        for call in block.lines
        if isinstance(call, wir.ExternKernelLine) and call.result is not None
    }
