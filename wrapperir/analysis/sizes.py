"""Bytes of storages, as expressions and as multiples of units."""

import math
from collections.abc import Mapping
from fractions import Fraction

from attrs import define, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis.arithmetic import UNBOUNDED, Interval, Polynomial, Polynomials
from wrapperir.ir.blocks import walk_lines

UNIT = 64
"""Bytes that allocators round up to; sizes of storages are counted in them."""


@frozen(eq=False)
class Basis:
    """A polynomial of symbols that is ``least`` at least; one object for each."""

    least: int
    polynomial: Polynomial = field(factory=Polynomial)
    bounds: Polynomials | None = None
    _known: dict["Basis", Fraction | None] = field(
        init=False, factory=dict["Basis", Fraction | None]
    )

    def times(self, other: "Basis") -> Fraction | None:
        """Return a factor by which ``other`` is at least this; ``None`` if unknown."""
        if self.bounds is None:
            return None
        if other not in self._known:
            found = self.bounds.most_times(self.polynomial, other.polynomial)
            self._known[other] = found
        return self._known[other]


_ONE = Basis(1, {(): 1})
"""The basis of constant bytes."""


@frozen(eq=False)
class Unit:
    """A number of bytes, ``expr``, that sizes are multiples of.

    It is ``bytes`` times a ``basis`` (or ``bytes``, if that is ``None``) and at most
    ``slack`` more.  ``weight`` is its value for symbols of a typical size.
    """

    expr: wir.Expr
    basis: Basis | None
    bytes: int
    slack: int
    weight: int


STATIC = Unit(UNIT, None, UNIT, 0, UNIT)
"""The unit of sizes without symbols: 64 bytes."""


def fits(taken: Mapping[Unit, int], most: Mapping[Unit, int]) -> bool:
    """Say whether ``taken`` is known to be no more bytes than ``most``; both count units.

    It is known if what it has less of some polynomials covers its excess of others, by the
    ranges of their symbols, and the rest, at least values, its excess of constant bytes.
    """
    if {*taken} == {*most} == {STATIC}:
        return taken[STATIC] <= most[STATIC]
    over, constant = _difference(taken, most)
    if any(n > 0 for n in over.values()):
        over[_ONE] = constant
        if not all(_cover(over, basis) for basis in [*over] if basis is not _ONE):
            return False
        constant = over.pop(_ONE)
    return _least(over, constant) <= 0


def _cover(over: dict[Basis, int], basis: Basis) -> bool:
    """Cover an excess of a polynomial by what is less of others; say whether all is."""
    for other, less in over.items() if over[basis] > 0 else ():
        times = basis.times(other) if less < 0 else None
        if times is not None:
            most = over[basis]
            covered = min(most, math.floor(-less / times)) if times else most
            over[basis] -= covered
            over[other] += math.ceil(covered * times)
            if not over[basis]:
                break
    return over[basis] <= 0


def units_over(
    taken: Mapping[Unit, int], most: Mapping[Unit, int], unit: Unit
) -> int | None:
    """Return how many fewer of ``unit`` make ``taken`` fit ``most``, or ``None``."""
    if {*taken} == {*most} == {STATIC} == {unit}:
        return max(taken[STATIC] - most[STATIC], 0)

    def fewer(less: int) -> bool:
        return fits({**taken, unit: taken.get(unit, 0) - less}, most)

    if fewer(0):
        return 0
    low, high = 0, taken.get(unit, 0)
    if not fewer(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fewer(middle) else (middle, high)
    return high


def _difference(
    taken: Mapping[Unit, int], most: Mapping[Unit, int]
) -> tuple[dict[Basis, int], int]:
    """Return by how many bytes more is taken: of each polynomial, and as a constant.

    Common units cancel.  Only the units left in ``taken`` count their slack.
    """
    over: dict[Basis, int] = {}
    constant = 0
    for unit in dict.fromkeys((*taken, *most)):
        count = taken.get(unit, 0) - most.get(unit, 0)
        constant += max(count, 0) * unit.slack
        if unit.basis is None:
            constant += count * unit.bytes
        else:
            over[unit.basis] = over.get(unit.basis, 0) + count * unit.bytes
    return over, constant


def _least(over: Mapping[Basis, int], constant: int) -> int:
    return constant + sum(n * basis.least for basis, n in over.items())


_TYPICAL = 32
"""The value assumed for symbols where units are compared."""


def storage_bytes(type: wir.TensorType | wir.PoolType) -> wir.Expr:
    """Return the bytes of a storage of this type."""
    if isinstance(type, wir.PoolType):
        return type.size
    extent = wir.storage_extent(type)
    if extent == 0:
        return 0
    return wir.mul(type.offset + extent, type.dtype.itemsize)


def same_bytes(left: wir.TensorType, right: wir.TensorType) -> bool:
    """Say whether storages of two types have as many bytes, whatever symbols' values."""
    polynomials = Polynomials(lambda name: UNBOUNDED, lambda name: None)
    sizes = storage_bytes(left), storage_bytes(right)  # kept while they are compared
    return polynomials.of(sizes[0]) == polynomials.of(sizes[1])


def rounded_up(bytes: wir.Expr) -> wir.Expr:
    """Return ``bytes`` rounded up to a multiple of :data:`UNIT`."""
    return wir.mul(wir.ceildiv(bytes, UNIT), UNIT)


def allocated_bytes(
    type: wir.TensorType | wir.PoolType, symbols: Mapping[str, wir.Number]
) -> int:
    """Return the bytes that a storage takes, rounded up to :data:`UNIT`.

    Raises:
        EvaluationError: a symbol has no value in ``symbols``, or the size has none.
    """
    if isinstance(type, wir.TensorType) and any(
        wir.evaluate_int(n, symbols) == 0 for n in type.size
    ):
        return 0
    return wir.evaluate_int(rounded_up(storage_bytes(type)), symbols)


@frozen
class Size:
    """``count`` times ``unit``.

    It is not ``exact`` where the bytes are fewer if a size is 0.
    """

    count: int
    unit: Unit
    exact: bool = True


def symbol_ranges(program: wir.Program) -> dict[str, Interval]:
    """Return the interval of each symbol of a program, nested blocks included."""
    ranges: dict[str, Interval] = {}
    for line in walk_lines((*program.symbols, *program.lines)):
        if isinstance(line, wir.SymbolDefinitionLine):
            low, high = line.lower, line.upper
            ranges[line.symbol] = (
                -math.inf if low is None else low,
                math.inf if high is None else high,
            )
    return ranges


@define
class Sizes:
    """Writes the bytes of types as multiples of units.

    Sizes that are whole multiples of one expression, whatever its symbols' values, have
    the same unit, so that they can be planned together.  The unit of constants is 64.
    """

    ranges: Mapping[str, Interval] = field(factory=dict[str, Interval])
    _polynomials: Polynomials = field(init=False)
    _one: Basis = field(init=False)
    _known: dict[int, tuple[Size, wir.TensorType | wir.PoolType]] = field(
        init=False, factory=dict[int, tuple[Size, wir.TensorType | wir.PoolType]]
    )
    _kept: list[wir.Expr] = field(init=False, factory=list[wir.Expr])
    _units: dict[tuple[Basis, int, int], Unit] = field(
        init=False, factory=dict[tuple[Basis, int, int], Unit]
    )
    _bases: dict[object, Basis] = field(init=False, factory=dict[object, Basis])

    def __attrs_post_init__(self) -> None:
        """Let polynomials be bounded by the symbols' ranges."""
        self._polynomials = Polynomials(
            lambda name: self.ranges.get(name, UNBOUNDED), lambda name: None
        )
        self._one = Basis(1, _ONE.polynomial, self._polynomials)

    def of(self, type: wir.TensorType | wir.PoolType) -> Size:
        """Return the bytes of a storage of this type, rounded up to :data:`UNIT`."""
        known = self._known.get(id(type))
        if known is None:
            known = self._known[id(type)] = (self._size_of(type), type)
        return known[0]

    def units_for(self, count: int, unit: Unit, other: Unit) -> int | None:
        """Return how many of ``other`` hold ``count`` of ``unit``, for any symbols.

        ``None`` if no number is known to.
        """
        of, basis = unit.basis or self._one, other.basis or self._one
        bytes = of.times(basis)
        slack = self._one.times(basis) if unit.slack else Fraction(0)
        if bytes is None or slack is None:
            return None
        return math.ceil(count * (bytes * unit.bytes + slack * unit.slack) / other.bytes)

    def _size_of(self, type: wir.TensorType | wir.PoolType) -> Size:
        if isinstance(type, wir.TensorType) and 0 in type.size:
            return Size(0, STATIC)
        bytes = storage_bytes(type)
        if isinstance(bytes, int):
            return Size(-(-bytes // UNIT), STATIC)
        self._kept.append(bytes)  # polynomials are remembered by identity
        polynomial = self._polynomials.of(bytes)
        exact = isinstance(type, wir.PoolType) or polynomial == self._dense(type)
        content = math.gcd(*polynomial.values())
        primitive = {monomial: n // content for monomial, n in polynomial.items()}
        whole = self._expression(primitive)
        if whole is None or content % UNIT:
            total = bytes if whole is None else wir.mul(whole, content)
            unit = self._unit(content, UNIT - 1, primitive, rounded_up(total))
            return Size(1, unit, exact)
        unit = self._unit(UNIT, 0, primitive, wir.mul(whole, UNIT))
        return Size(content // UNIT, unit, exact)

    def _dense(self, type: wir.TensorType) -> Polynomial:
        """Return the bytes of all elements, next to each other."""
        elements = wir.mul(wir.product(type.size), type.dtype.itemsize)
        self._kept.append(elements)
        return self._polynomials.of(elements)

    def _unit(self, bytes: int, slack: int, polynomial: Polynomial, expr: wir.Expr) -> Unit:
        """Return the unit of ``bytes`` times the polynomial, and up to ``slack`` more."""
        key = tuple(sorted(polynomial.items(), key=repr))
        basis = self._bases.get(key)
        if basis is None:
            low = self._polynomials.bounds(polynomial)[0]
            basis = self._bases[key] = Basis(
                max(low, 0) if isinstance(low, int) else 0, polynomial, self._polynomials
            )
        unit = self._units.get((basis, bytes, slack))
        if unit is None:
            unit = Unit(expr, basis, bytes, slack, _weight(expr))
            self._units[basis, bytes, slack] = unit
        return unit

    def _expression(self, polynomial: Polynomial) -> wir.Expr | None:
        """Return the expression of a polynomial over symbols alone."""
        total: wir.Expr = 0
        for monomial, coefficient in polynomial.items():
            term: wir.Expr = coefficient
            for unknown in monomial:
                if not isinstance(unknown, str):
                    return None
                term = wir.mul(wir.Symbol(unknown), term)
            total = total + term
        return total


def _weight(unit: wir.Expr) -> int:
    try:
        return wir.evaluate_int(unit, dict.fromkeys(wir.symbols_in(unit), _TYPICAL))
    except wir.EvaluationError:
        return _TYPICAL
