"""The accesses of a nest as linear functions of its axes."""

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from wrapperir.ir import Expr, TensorType, symbols_in
from wrapperir.lowering.costs import TypicalSizes
from wrapperir.lowering.indexing import IndexRanges, is_whole
from wrapperir.lowering.kernel import SizeSymbols, symbol_intervals
from wrapperir.lowering.loops import IndexValue, Load, Nest, Store
from wrapperir.lowering.substitution import all_axes, index_of, instructions


@frozen(kw_only=True)
class LinearAccess:
    """An index expression of a nest.

    ``strides`` has the coefficient of each axis that the expression is linear in;
    ``mixed`` the axes that it uses in another way.  ``bytes`` is the memory that the
    access touches, written bytes twice; 0 for a value that is an index.
    """

    expr: Expr
    strides: Mapping[str, Expr]
    mixed: frozenset[str]
    bytes: int
    typical: Mapping[str, int] = field(factory=dict[str, int])


def nest_ranges(nest: Nest, symbols: SizeSymbols) -> IndexRanges:
    """Return the ranges of a nest's axes."""
    return IndexRanges.of_axes(all_axes(nest.axes, nest.body), symbol_intervals(symbols))


def linear_terms_of(
    nest: Nest, buffers: Mapping[str, TensorType], ranges: IndexRanges, sizes: TypicalSizes
) -> list[LinearAccess]:
    """Return the index expressions of a nest whose accesses are linear, each once."""
    axes = {axis.name: axis for axis in all_axes(nest.axes, nest.body)}
    found: dict[tuple[str, Expr], LinearAccess] = {}
    for each in instructions(nest.body):
        if not isinstance(each, Load | Store | IndexValue):
            continue
        buffer = "" if isinstance(each, IndexValue) else each.buffer
        written = isinstance(each, Store)
        for expr in index_of(each):
            key = (f"{buffer}{'=' * written}", expr)
            if key in found or not is_whole(expr):
                continue
            terms = ranges.linear_terms(expr, axes)
            used = [axes[name] for name in _names(terms.rest) if name in axes]
            strides = terms.coefficients
            touched = sizes.points([axes[name] for name in strides]) * sizes.points(used)
            found[key] = LinearAccess(
                expr=expr,
                strides=strides,
                mixed=frozenset(axis.name for axis in used),
                bytes=_bytes(buffer, touched, written, buffers, sizes),
                typical={name: sizes.value(stride) for name, stride in strides.items()},
            )
    return list(found.values())


def _names(expr: Expr) -> Iterable[str]:
    return dict.fromkeys(symbols_in(expr))


def _bytes(
    buffer: str,
    touched: int,
    written: bool,
    buffers: Mapping[str, TensorType],
    sizes: TypicalSizes,
) -> int:
    if not buffer:
        return 0
    type = buffers[buffer]
    count = min(touched * type.dtype.itemsize, sizes.bytes(type))
    return count * 2 if written else count
