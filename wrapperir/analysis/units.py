"""Amounts of memory as multiples of units, compared for all values of symbols at once."""

from collections.abc import Mapping

from attrs import frozen

from wrapperir.ir import Expr

UNIT = 64
"""Bytes that allocators round up to; sizes of storages are counted in them."""


@frozen(eq=False)
class Basis:
    """A polynomial of symbols that is ``least`` at least; one object for each."""

    least: int


@frozen(eq=False)
class Unit:
    """A number of bytes, ``expr``, that sizes are multiples of.

    It is ``bytes`` times a ``basis`` (or ``bytes``, if that is ``None``) and at most
    ``slack`` more.  ``weight`` is its value for symbols of a typical size.
    """

    expr: Expr
    basis: Basis | None
    bytes: int
    slack: int
    weight: int


STATIC = Unit(UNIT, None, UNIT, 0, UNIT)
"""The unit of sizes without symbols: 64 bytes."""


def fits(taken: Mapping[Unit, int], most: Mapping[Unit, int]) -> bool:
    """Say whether ``taken`` is known to be no more bytes than ``most``; both count units.

    It is known if ``taken`` has no more of any polynomial, and the polynomials that it has
    less of, at their least values, make up for the constant bytes that it has more of.
    """
    if {*taken} == {*most} == {STATIC}:
        return taken[STATIC] <= most[STATIC]
    over, constant = _difference(taken, most)
    return all(n <= 0 for n in over.values()) and _least(over, constant) <= 0


def units_over(
    taken: Mapping[Unit, int], most: Mapping[Unit, int], unit: Unit
) -> int | None:
    """Return how many fewer of ``unit`` make ``taken`` fit ``most``, or ``None``."""
    over, constant = _difference(taken, most)
    basis, less, each = unit.basis, 0, unit.bytes
    if basis is not None:
        less = max(0, -(-over.get(basis, 0) // unit.bytes))
        fewer = {**taken, unit: taken.get(unit, 0) - less}
        over, constant = _difference(fewer, most)
        each = unit.bytes * basis.least + unit.slack
    if any(n > 0 for n in over.values()):
        return None
    rest = _least(over, constant)
    if rest <= 0:
        return less
    return less + -(-rest // each) if each else None


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
