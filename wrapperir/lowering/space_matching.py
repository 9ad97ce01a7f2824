"""Match the axes of two nests by the elements of buffers that both access.

``x[i0, i1]`` in one nest and ``x[j0 * 64 + j1, j2]`` in another are the same element where
``i0 = j0 * 64 + j1`` and ``i1 = j2``: ``i0`` is split, and the axes are matched one to one.
An axis is split where two mixed-radix numbers, one for each nest, have a common refinement.
"""

from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

from wrapperir.ir import Expr, Symbol, mul
from wrapperir.lowering.flat_nest import FlatNest
from wrapperir.lowering.index_sums import Sum, divide_terms, expr_of, multiply_sums
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.kernel import SizeSymbols, symbol_intervals
from wrapperir.lowering.loops import Axis
from wrapperir.lowering.substitution import Substitution


@frozen
class SharedAccess:
    """Accesses of two nests to one buffer, and the sizes of its dimensions."""

    first: tuple[Expr, ...]
    second: tuple[Expr, ...]
    sizes: tuple[Expr, ...]


@frozen(kw_only=True)
class CommonSpace:
    """One space for two nests.

    ``first`` and ``second`` replace the axes of each nest; axes that they do not have
    stay.
    """

    parallel: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    first: Mapping[str, Expr]
    second: Mapping[str, Expr]
    ranges: IndexRanges


@define
class _Side:
    """The axes of one nest, and the parts that each is split into, outermost first."""

    axes: tuple[Axis, ...]
    parts: dict[str, list[Axis]] = field(factory=dict[str, list[Axis]])
    splits: int = 0

    def __attrs_post_init__(self) -> None:
        self.parts = {axis.name: [axis] for axis in self.axes}

    def leaves(self, axes: Sequence[Axis]) -> list[Axis]:
        return [part for axis in axes for part in self.parts[axis.name]]

    def split(self, part: Axis, high: Expr, low: Expr) -> tuple[Axis, Axis]:
        """Split a part into an outer and an inner one."""
        for parts in self.parts.values():
            if part in parts:
                place = parts.index(part)
                pair = (Axis(f"{part.name}h", high), Axis(f"{part.name}l", low))
                parts[place : place + 1] = pair
                self.splits += 1
                return pair
        raise AssertionError(part)

    def indices(self, names: Mapping[str, str]) -> dict[str, Expr]:
        """Return each axis over its parts, the parts renamed."""
        found: dict[str, Expr] = {}
        for axis, parts in self.parts.items():
            value: Expr = 0
            for part in parts:
                name = names.get(part.name, part.name)
                value = mul(value, part.extent) + Symbol(name)
            if value != Symbol(axis):
                found[axis] = value
        return found


class _Matching:
    def __init__(self, first: FlatNest, second: FlatNest, symbols: SizeSymbols) -> None:
        self.first = _Side(first.axes)
        self.second = _Side(second.axes)
        self.pairs: dict[str, str] = {}
        self.inverse: dict[str, str] = {}
        self.intervals = symbol_intervals(symbols)
        self._sizes = IndexRanges({}, self.intervals)
        self._made_at = (0, 0)
        self._ranges = self._new_ranges()

    def _new_ranges(self) -> IndexRanges:
        leaves = (
            *self.first.leaves(self.first.axes),
            *self.second.leaves(self.second.axes),
        )
        return IndexRanges.of_axes(leaves, self.intervals)

    def _current(self, side: _Side, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if self._made_at != (self.first.splits, self.second.splits):
            self._made_at = (self.first.splits, self.second.splits)
            self._ranges = self._new_ranges()
        if not side.splits:
            return index
        rename = Substitution(indices=side.indices({}), simplify=self._ranges.simplify)
        return tuple(map(rename.index, index))

    def add(self, shared: SharedAccess) -> bool:
        """Match the axes of one buffer's accesses; say whether they can be equal."""
        first = self._current(self.first, shared.first)
        second = self._current(self.second, shared.second)
        left = {axis.name: axis for axis in self.first.leaves(self.first.axes)}
        right = {axis.name: axis for axis in self.second.leaves(self.second.axes)}
        plain: list[tuple[Axis, Axis]] = []
        mixed: list[int] = []
        for dim, (a, b) in enumerate(zip(first, second, strict=True)):
            if isinstance(a, Symbol) and isinstance(b, Symbol):
                if a.name in left and b.name in right:
                    if left[a.name].extent == right[b.name].extent:
                        plain.append((left[a.name], right[b.name]))
                        continue
                elif a == b:
                    continue
            if isinstance(a, int) and a == b:
                continue
            mixed.append(dim)
        if not self._consistent(plain):
            return False
        for axis, other_axis in plain:
            self._pair(axis, other_axis)
        if not mixed:
            return True
        found = self._number(first, mixed, shared.sizes)
        other = self._number(second, mixed, shared.sizes)
        if found.get(()) == other.get(()):  # an offset that both have
            found.pop((), None)
            other.pop((), None)
        digits = mixed_radix(found, left, self._ranges)
        others = mixed_radix(other, right, self._ranges)
        if digits is None or others is None:
            return False
        before = (dict(self.pairs), dict(self.inverse))
        if self._refine(digits, others):
            return True
        self.pairs, self.inverse = before
        return False

    def _consistent(self, pairs: Sequence[tuple[Axis, Axis]]) -> bool:
        forward, back = dict(self.pairs), dict(self.inverse)
        return all(
            forward.setdefault(a.name, b.name) == b.name
            and back.setdefault(b.name, a.name) == a.name
            for a, b in pairs
        )

    def _pair(self, first: Axis, second: Axis) -> None:
        self.pairs[first.name] = second.name
        self.inverse[second.name] = first.name

    def _number(
        self, index: tuple[Expr, ...], dims: Sequence[int], sizes: tuple[Expr, ...]
    ) -> Sum:
        """Return the number whose digits are the indices of some dimensions."""
        total: Expr = 0
        for dim in dims:
            total = mul(total, sizes[dim]) + index[dim]
        return dict(self._ranges.sum_of(total))

    def _refine(self, first: list[Axis], second: list[Axis]) -> bool:
        """Pair the digits of two numbers, splitting them where one is a multiple."""
        left, right = list(reversed(first)), list(reversed(second))
        while left and right:
            a, b = left.pop(), right.pop()
            if a.extent == b.extent:
                if not self._consistent([(a, b)]):
                    return False
                self._pair(a, b)
                continue
            if a.name in self.pairs or b.name in self.inverse:
                return False
            more = self._ratio(a.extent, b.extent)
            if more is not None:
                high, low = self.first.split(a, more, b.extent)
                self._pair(low, b)
                left.append(high)
                continue
            more = self._ratio(b.extent, a.extent)
            if more is None:
                return False
            high, low = self.second.split(b, more, a.extent)
            self._pair(a, low)
            right.append(high)
        return not left and not right

    def _ratio(self, extent: Expr, divisor: Expr) -> Expr | None:
        if isinstance(extent, int) and isinstance(divisor, int):
            return extent // divisor if divisor and extent % divisor == 0 else None
        whole, rest = divide_terms(self._sizes.sum_of(extent), self._sizes.sum_of(divisor))
        return None if rest or not whole else expr_of(whole)


def mixed_radix(
    total: Sum, axes: Mapping[str, Axis], ranges: IndexRanges
) -> list[Axis] | None:
    """Return the axes of ``(a · |b| + b) · |c| + c``, innermost first: c, b, a.

    ``None`` if a sum is not such a number.
    """
    terms = dict(total)
    unit: Sum = {(): 1}
    found: list[Axis] = []
    while terms:
        digit = None
        for name, axis in axes.items():
            term = multiply_sums(unit, {(name,): 1})
            if all(terms.get(monomial) == factor for monomial, factor in term.items()):
                digit = axis
                for monomial in term:
                    del terms[monomial]
                break
        if digit is None:
            return None
        found.append(digit)
        unit = ranges.sum_of(mul(expr_of(unit), digit.extent))
    return found


def match_spaces(
    first: FlatNest,
    second: FlatNest,
    accesses: Sequence[SharedAccess],
    symbols: SizeSymbols,
    *,
    write_parts: bool = False,
) -> CommonSpace | str:
    """Return a space in which two nests access the same elements, or why there is none.

    One nest's axes are matched with the other's by ``accesses``, the most important
    first; axes that no access tells are matched in order, if their extents are equal.
    With ``write_parts``, two nests that write parts of a buffer, they all may be.
    """
    matching = _Matching(first, second, symbols)
    matched = 0
    for shared in accesses:
        matched += matching.add(shared)
        if (
            len(matching.pairs)
            == len(matching.first.leaves(first.axes))
            == len(matching.second.leaves(second.axes))
        ):
            break
    if not matched and not write_parts:
        return "no access of one is an access of the other"
    left = [a for a in matching.first.leaves(first.axes) if a.name not in matching.pairs]
    right = [
        b for b in matching.second.leaves(second.axes) if b.name not in matching.inverse
    ]
    if left and right:
        if [a.extent for a in left] != [b.extent for b in right]:
            return "the iteration spaces differ"
        for a, b in zip(left, right, strict=True):
            matching.pairs[a.name] = b.name
            matching.inverse[b.name] = a.name
    return _common_space(first, second, matching)


def _common_space(
    first: FlatNest, second: FlatNest, matching: _Matching
) -> CommonSpace | str:
    one, two, names = matching.first, matching.second, matching.inverse
    for flat, side in ((first, one), (second, two)):
        if flat.scans and len(side.parts[flat.inner[-1].name]) > 1:
            return "a scanned axis would be split"

    def renamed(axes: Sequence[Axis]) -> tuple[Axis, ...]:
        leaves = two.leaves(axes)
        return tuple(Axis(names.get(axis.name, axis.name), axis.extent) for axis in leaves)

    parallel, inner = tuple(one.leaves(first.parallel)), tuple(one.leaves(first.inner))
    other_parallel, other_inner = renamed(second.parallel), renamed(second.inner)
    a, b = _names(parallel), _names(other_parallel)
    r, q = _names(inner), _names(other_inner)
    if not r and not q:
        if a != b:
            return "one runs over a larger space"
    elif r and q:
        if a != b or r != q:
            return "they reduce over different axes"
        if second.keeps_order and inner != other_inner:
            if first.keeps_order:
                return "they scan axes in different orders"
            inner = other_inner
    elif r:
        if b not in (a, a | r):
            return "the second runs over other axes than the first or its result"
    else:
        if a not in (b, b | q):
            return "the first runs over other axes than the second or its result"
        parallel, inner = other_parallel, other_inner
    return CommonSpace(
        parallel=parallel,
        inner=inner,
        first=one.indices({}),
        second=two.indices(names),
        ranges=IndexRanges.of_axes((*parallel, *inner), matching.intervals),
    )


def _names(axes: Sequence[Axis]) -> set[str]:
    return {axis.name for axis in axes}
