import importlib

import pytest
import torch

from wrapperir.ir import ConditionalLine, FreeLine, ItemOf, TupleType, tensor
from wrapperir.ir.builder import BlockBuilder, NamedValue, ProgramBuilder
from wrapperir.operators import may_leave_out
from wrapperir.passes import insert_frees, remove_dead_lines

F8 = tensor("f32", (8,))


def test_a_chain_that_nothing_uses_goes_with_its_frees() -> None:
    b = ProgramBuilder()
    x = b.input(F8, name="x")
    a = b.allocate(F8)
    r = b.reuse(a, F8)
    t = b.extern("aten.max.dim", x, 0, type=TupleType((F8, F8)))
    m = b.multi_output(t, 0, type=F8)
    v = b.reinterpret(m, tensor("f32", (4,)))
    b.comment("kept").free(r, t, m, v)
    y = b.extern("aten.relu.default", x, type=F8, name="y")
    b.free(x)
    program = remove_dead_lines(b.build(y))

    expected = ProgramBuilder()
    x = expected.input(F8, name="x")
    expected.comment("kept")
    y = expected.extern("aten.relu.default", x, type=F8, name="y")
    expected.free(x)
    assert program == expected.build(y)


def test_a_dead_reuse_frees_its_source() -> None:
    b = ProgramBuilder()
    a = b.allocate(F8, name="a")
    b.extern_out("aten.fill_.Scalar", a, 0.0, writes=[a])
    r = b.reuse(a, F8)
    b.free(r)
    lines = remove_dead_lines(b.build()).lines
    assert lines[-1] == FreeLine(buffer="a")
    assert len(lines) == 3


@pytest.mark.parametrize(
    "operator",
    ["aten.rand.default", "acme.launch.default", "aten.native_batch_norm.default"],
)
def test_calls_with_other_effects_stay(operator: str) -> None:
    b = ProgramBuilder()
    b.extern(operator, (8,), type=F8)
    program = insert_frees(b.build())
    assert remove_dead_lines(program) == program


def test_writes_asserts_and_symbols_stay() -> None:
    b = ProgramBuilder()
    x = b.input(F8, name="x", mutated=True)
    i = b.input(tensor("i64", ()), name="i")
    b.extern("aten.add_.Tensor", x, 1, type=F8, writes=[x], aliases=[x])
    v = b.reinterpret(x, F8)
    b.assert_not_nan(v)
    b.define_symbol("u0", ItemOf(i.name))
    program = insert_frees(b.build())
    assert remove_dead_lines(program) == program


def test_blocks_are_cleaned_too() -> None:
    b = ProgramBuilder()
    x = b.input(F8, name="x")
    p = b.input(tensor("bool", ()), name="p")

    def branch(block: BlockBuilder, x: NamedValue) -> NamedValue:
        block.extern("aten.relu.default", x, type=F8)
        return block.extern("aten.neg.default", x, type=F8)

    (y,) = b.conditional(p, [x], branch, branch, results=[F8])
    line = remove_dead_lines(insert_frees(b.build(y))).lines[0]
    assert isinstance(line, ConditionalLine)
    assert len(line.on_true.lines) == len(line.on_false.lines) == 1


def test_random_operators_are_known() -> None:
    importlib.import_module("torch._inductor.inductor_prims")  # registers some
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        overload = schema.overload_name or "default"
        if namespace not in {"aten", "prims"} or not schema.returns:
            continue
        packet = getattr(getattr(torch.ops, namespace), name, None)
        operator = getattr(packet, overload, None)
        if operator is not None and torch.Tag.nondeterministic_seeded in operator.tags:
            assert not may_leave_out(f"{namespace}.{name}.{overload}")
    assert may_leave_out("aten.mm.default")
