"""The text of index expressions, and of the offset of an access in its buffer."""

from collections.abc import Mapping, Sequence

from attrs import frozen

from wrapperir.ir import (
    DType,
    Expr,
    ExprOp,
    Operation,
    Symbol,
    mul,
    product,
    symbols_in,
)
from wrapperir.lowering.indexing import IndexRanges, distance
from wrapperir.lowering.loops import Axis
from wrapperir.lowering.source_parts import SIGNS
from wrapperir.lowering.triton.tile import BlockDimension
from wrapperir.lowering.triton.writer import BODY, BlockValue, Writer

_INFIX = {**SIGNS, ExprOp.AND: "&", ExprOp.OR: "|"}
WRITTEN = frozenset(
    {
        *_INFIX,
        *(ExprOp.FLOORDIV, ExprOp.MOD, ExprOp.NEG, ExprOp.CEILDIV, ExprOp.MIN, ExprOp.MAX),
        *(ExprOp.ABS, ExprOp.NOT, ExprOp.WHERE),
    }
)
"""The operators that an index may have here."""

_LARGEST = (1 << 31) - 1


@frozen
class AxisPlace:
    """The place of an axis among those of its dimension."""

    dimension: BlockDimension
    axes: tuple[Axis, ...]
    position: int


class IndexWriter:
    """Writes index expressions over axes, size symbols and values of a nest."""

    def __init__(
        self,
        writer: Writer,
        ranges: IndexRanges,
        symbols: Mapping[str, DType],
        values: Mapping[str, BlockValue],
        is_wide: bool,
    ) -> None:
        """Begin without axes.

        ``ranges`` are those of all axes, ``values`` are the values of the nest as they are
        defined.  ``is_wide``: offsets are computed in 64 bits.
        """
        self._writer = writer
        self._ranges = ranges
        self._symbols = symbols
        self._values = values
        self._dtype = DType.I64 if is_wide else DType.I32
        self._axes: dict[str, AxisPlace] = {}

    def enter(self, dimension: BlockDimension, axes: tuple[Axis, ...]) -> None:
        """Take the axes of a dimension, which indices may use from here."""
        for position, axis in enumerate(axes):
            self._axes[axis.name] = AxisPlace(dimension, axes, position)

    def offset(self, index: Sequence[Expr], stride: Sequence[Expr]) -> BlockValue:
        """Return the offset of an access, in elements, as text to be put in parentheses."""
        terms = self._ranges.linear_terms(distance(index, stride), self._axes)
        parts = self._axis_terms(terms.coefficients)
        rest = terms.rest
        is_sum = isinstance(rest, Operation) and rest.op is ExprOp.ADD
        for part in rest.args if is_sum and isinstance(rest, Operation) else (rest,):
            if part != 0 or not parts:
                # Values of the nest are whole numbers of any size.
                is_indirect = any(name in self._values for name in symbols_in(part))
                parts.append(self.text(part, is_wide=is_indirect))
        return _sum(parts)

    def text(self, expr: Expr, *, is_wide: bool = False) -> BlockValue:
        """Return an expression as text, with 64 bits if ``is_wide``.

        Raises:
            NotImplementedError: it has an operator that kernels do not have.
        """
        if isinstance(expr, int):
            return BlockValue(str(int(expr)), DType.I64 if _is_long(expr) else DType.I32)
        if isinstance(expr, Symbol):
            return self._symbol(expr.name, is_wide)
        if not isinstance(expr, Operation) or expr.op not in WRITTEN:
            raise NotImplementedError(f"{expr} in an index")
        parts = [self.text(arg, is_wide=is_wide) for arg in expr.args]
        is_plain = all(self._ranges.is_nonnegative(arg) for arg in expr.args)
        return self._operation(expr.op, parts, is_plain)

    def _operation(
        self, op: ExprOp, parts: Sequence[BlockValue], is_plain: bool
    ) -> BlockValue:
        texts = [part.text for part in parts]
        match op:
            case ExprOp.FLOORDIV | ExprOp.MOD:
                sign = "//" if op is ExprOp.FLOORDIV else "%"
                if is_plain:
                    return _of(parts, f"({texts[0]} {sign} {texts[1]})")
                function = "floor_quotient" if sign == "//" else "floor_remainder"
                parts = [self._writer.define(part) for part in parts]
                arguments = ", ".join(self._typed(part) for part in parts)
                return _of(parts, f"{function}({arguments})")
            case ExprOp.CEILDIV:
                up = _of(parts, f"({texts[0]} + {texts[1]} - 1)")
                return self._operation(ExprOp.FLOORDIV, (up, parts[1]), is_plain)
            case ExprOp.MIN | ExprOp.MAX:
                name = "tl.minimum" if op is ExprOp.MIN else "tl.maximum"
                text = texts[0]
                for other in texts[1:]:
                    text = f"{name}({text}, {other})"
                return _of(parts, text)
            case ExprOp.WHERE:
                return _of(parts, f"tl.where({', '.join(texts)})")
            case ExprOp.NEG:
                return _of(parts, f"(0 - {texts[0]})")
            case ExprOp.ABS:
                return _of(parts, f"tl.abs({texts[0]})")
            case ExprOp.NOT:
                return _of(parts, f"({texts[0]} == 0)")
            case _:
                if op in (ExprOp.AND, ExprOp.OR):
                    texts = [f"({text} != 0)" for text in texts]
                return _of(parts, f"({f' {_INFIX[op]} '.join(texts)})")

    def _typed(self, part: BlockValue) -> str:
        """Return an operand of a function, whose parameters must not be constants."""
        if part.text.lstrip("-").isdigit():
            kind = "tl.int64" if part.dtype is DType.I64 else "tl.int32"
            return f"tl.full([], {part.text}, {kind})"
        return part.text

    def _symbol(self, name: str, is_wide: bool) -> BlockValue:
        place = self._axes.get(name)
        if place is not None:
            code = self.group(place, place.position, place.position)
        elif name in self._values:
            code = self._values[name]
        else:
            code = BlockValue(name, self._symbols.get(name, DType.I64))
        if not is_wide or code.dtype is DType.I64 or code.text.isdigit():
            return code
        # A size may be a constant of Python's in a kernel that was compiled for it.
        text = f"tl.full([], {code.text}, tl.int64)"
        if code.dims:
            text = f"{code.text}.to(tl.int64)"
        return BlockValue(text, DType.I64, code.dims, code.level)

    def group(self, place: AxisPlace, first: int, last: int) -> BlockValue:
        """Return the flat index of neighbouring axes of a dimension."""
        axes = place.axes
        before = [axis.extent for axis in axes[:first] if axis.extent != 1]
        own = product(tuple(axis.extent for axis in axes[first : last + 1]))
        if own == 1:
            return BlockValue("0", self._dtype)
        value = self._quotient(place, last)
        text = value.text
        if before:
            text = f"{text} % {self.text(own).text}"
        name = axes[last].name if first == last else "t"
        return self._writer.define(_of([value], text), name)

    def _quotient(self, place: AxisPlace, last: int) -> BlockValue:
        """Return the flat index divided by the extents of the axes after ``last``.

        A symbolic extent is divided by alone, and what is left by the one before: so axes
        share the divisions, which take as long as all else of an index.
        """
        after = [axis.extent for axis in place.axes[last + 1 :]]
        divisor = product(tuple(after))
        dimension = place.dimension
        level = self._writer.level_of(dimension)
        dims = frozenset(() if dimension.is_single else (dimension,))
        value = BlockValue(dimension.index, self._dtype, dims, level)
        if not isinstance(divisor, int):
            divisor = after[0]
            value = self._writer.define(self._quotient(place, last + 1))
        if divisor == 1:
            return value
        return _of([value], f"{value.text} // {self.text(divisor).text}")

    def _axis_terms(self, scales: Mapping[str, Expr]) -> list[BlockValue]:
        """Return terms of axes; neighbours that make one index together are one term."""
        parts: list[BlockValue] = []
        places = {name: self._axes[name] for name in scales}
        spaces = dict.fromkeys((p.dimension, p.axes) for p in places.values())
        for dimension, axes in spaces:
            own = [n for n, axis in enumerate(axes) if axis.extent != 1]
            groups: list[tuple[int, int, Expr]] = []
            for position in own:
                scale = scales.get(axes[position].name, 0)
                if groups:
                    first, last, outer = groups[-1]
                    if scale != 0 and self._ranges.equal(
                        outer, mul(scale, axes[position].extent)
                    ):
                        groups[-1] = (first, position, scale)
                        continue
                groups.append((position, position, scale))
            for first, last, scale in groups:
                if scale != 0:
                    place = AxisPlace(dimension, axes, first)
                    parts.append(self._scaled(self.group(place, first, last), scale))
        return parts

    def _scaled(self, value: BlockValue, scale: Expr) -> BlockValue:
        if scale == 1:
            return value
        factor = self.text(scale)
        return _of([value, factor], f"{_atom(value.text)} * {_atom(factor.text)}")


def _is_long(number: int) -> bool:
    return not -_LARGEST - 1 <= number <= _LARGEST


def _atom(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _of(parts: Sequence[BlockValue], text: str) -> BlockValue:
    """Return the value of a text that is made of parts."""
    dims = frozenset[BlockDimension]().union(*(part.dims for part in parts))
    is_long = any(part.dtype is DType.I64 for part in parts)
    level = max((part.level for part in parts), default=BODY)
    return BlockValue(text, DType.I64 if is_long else DType.I32, dims, level)


def _sum(parts: Sequence[BlockValue]) -> BlockValue:
    if len(parts) == 1:
        return parts[0]
    return _of(parts, " + ".join(_atom(part.text) for part in parts))
