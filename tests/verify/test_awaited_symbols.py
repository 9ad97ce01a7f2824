"""A result's type may mention symbols that the lines directly after it define."""

import pytest

from wrapperir.diagnostics import Code
from wrapperir.ir import SizeOf, Symbol, TupleType, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.verify import verify

U0, U1 = Symbol("u0"), Symbol("u1")


def test_sizes_that_only_the_operator_knows() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (8,)), name="x")
    y = b.extern("aten.nonzero.default", x, type=tensor("i64", (U0, 1)))
    b.free(x).comment("between")
    b.define_symbol("u0", SizeOf(y.name, 0))
    x = b.extern("aten.zeros.default", (8,), type=tensor("f32", (8,)))
    pair = TupleType((tensor("f32", (U1,)), tensor("i64", (8,))))
    t = b.extern("aten._unique2.default", x, type=pair)
    first = b.multi_output(t, 0, type=pair.elements[0])
    b.define_symbol("u1", SizeOf(first.name, 0))
    second = b.multi_output(t, 1, type=pair.elements[1])
    z = b.extern("aten.zeros.default", (U0,), type=tensor("f32", (U0,)))
    b.free(t, x)
    assert verify(b.build(y, z, first, second, U1)) == ()


@pytest.mark.parametrize("later", [False, True])
def test_a_line_between_uses_the_symbol_too_early(later: bool) -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (8,)), name="x")
    y = b.extern("aten.nonzero.default", x, type=tensor("i64", (U0, 1)))
    b.assert_not_nan(x)
    if later:
        b.define_symbol("u0", SizeOf(y.name, 0))
    codes = [d.code for d in verify(b.build(y))]
    assert codes[0] is (Code.SYMBOL_BEFORE_DEFINITION if later else Code.UNKNOWN_SYMBOL)
    assert verify(b.build(y))[0].path == ("lines", 0)


def test_another_symbol_may_not_be_computed_from_it() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (8,)), name="x")
    y = b.extern("aten.nonzero.default", x, type=tensor("i64", (U0, 1)))
    b.define_symbol("u1", U0 * 2)
    b.define_symbol("u0", SizeOf(y.name, 0))
    assert Code.SYMBOL_BEFORE_DEFINITION in {d.code for d in verify(b.build(y))}


def test_an_allocation_brings_no_symbol() -> None:
    b = ProgramBuilder()
    y = b.allocate(tensor("i64", (U0, 1)))
    b.define_symbol("u0", SizeOf(y.name, 0))
    assert Code.SYMBOL_BEFORE_DEFINITION in {d.code for d in verify(b.build(y))}
