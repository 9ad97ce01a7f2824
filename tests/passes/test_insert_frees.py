from attrs import evolve

from wrapperir.ir import (
    BodyLine,
    ConditionalLine,
    DType,
    FreeLine,
    ItemOf,
    ScalarType,
    Symbol,
    TupleType,
    ZeroMode,
    tensor,
)
from wrapperir.ir.builder import BlockBuilder, NamedValue, ProgramBuilder
from wrapperir.passes import insert_frees

F8 = tensor("f32", (8,))


def shape(lines: tuple[BodyLine, ...]) -> list[str]:
    """Name each line by its kind, frees by what they free."""
    return [
        f"free {line.buffer}" if isinstance(line, FreeLine) else type(line).__name__[:-4]
        for line in lines
    ]


def test_a_name_is_freed_after_its_last_use() -> None:
    b = ProgramBuilder()
    x = b.input(F8, name="x")
    y = b.extern("aten.relu.default", x, type=F8, name="y")
    z = b.extern("aten.add.Tensor", x, y, type=F8, name="z")
    w = b.extern("aten.neg.default", z, type=F8, name="w")
    assert shape(insert_frees(b.build(w)).lines) == [
        "ExternKernel",
        "ExternKernel",
        "free x",
        "free y",
        "ExternKernel",
        "free z",
    ]


def test_unused_names_are_freed_where_they_appear() -> None:
    b = ProgramBuilder()
    b.input(F8, name="x")
    b.input(ScalarType(DType.I64), name="n")
    b.constant(F8, "weight")
    b.allocate(F8, name="y")
    assert shape(insert_frees(b.build()).lines) == ["free x", "Allocate", "free y"]


def test_what_is_not_owned_gets_no_free() -> None:
    b = ProgramBuilder()
    x = b.input(F8, name="x")
    w = b.constant(F8, "weight", name="w")
    ws = b.allocate(F8, name="ws", workspace=ZeroMode.ZERO_PER_PROGRAM)
    y = b.extern("aten.add.Tensor", w, ws, type=F8, name="y")
    n = b.extern("aten.sym_size.int", x, 0, type=ScalarType(DType.I64), name="n")
    assert shape(insert_frees(b.build(y, n)).lines) == [
        "Allocate",
        "ExternKernel",
        "ExternKernel",
        "free x",
    ]


def test_reuse_drops_its_source() -> None:
    b = ProgramBuilder()
    x = b.allocate(F8, name="x")
    y = b.reuse(x, F8, name="y")
    assert shape(insert_frees(b.build(y)).lines) == ["Allocate", "Reuse"]


def test_tuples_and_their_elements_are_names_of_their_own() -> None:
    b = ProgramBuilder()
    x = b.input(F8, name="x")
    t = b.extern("aten.max.dim", x, 0, type=TupleType((F8, F8)), name="t")
    first = b.multi_output(t, 0, type=F8, name="first")
    second = b.multi_output(t, 1, type=F8, name="second")
    b.define_symbol("u0", ItemOf(second.name))
    assert shape(insert_frees(b.build(first, Symbol("u0"))).lines) == [
        "ExternKernel",
        "free x",
        "MultiOutput",
        "MultiOutput",
        "free t",
        "SymbolDefinition",
        "free second",
    ]


def conditional_program() -> ProgramBuilder:
    b = ProgramBuilder()
    p = b.input(tensor("bool", ()), name="p")
    x = b.input(F8, name="x")

    def on_true(block: BlockBuilder, x: NamedValue) -> NamedValue:
        y = block.extern("aten.relu.default", x, type=F8, name="y")
        return block.extern("aten.neg.default", y, type=F8, name="z")

    def on_false(block: BlockBuilder, x: NamedValue) -> NamedValue:
        return block.extern("aten.clone.default", x, type=F8, name="v")

    b.conditional(p, [x], on_true, on_false, results=[F8])
    return b


def test_blocks_free_their_own_names_and_no_parameter() -> None:
    program = insert_frees(conditional_program().build())
    assert shape(program.lines) == ["Conditional", "free p", "free x", "free buf0"]
    line = program.lines[0]
    assert isinstance(line, ConditionalLine)
    assert shape(line.on_true.lines) == ["ExternKernel", "ExternKernel", "free y"]
    assert shape(line.on_false.lines) == ["ExternKernel"]


def test_frees_that_are_there_stay_and_none_is_doubled() -> None:
    b = ProgramBuilder()
    x = b.input(F8, name="x")
    y = b.extern("aten.relu.default", x, type=F8, name="y")
    b.comment("later").free(y)
    program = insert_frees(b.build())
    assert shape(program.lines) == ["ExternKernel", "free x", "Comment", "free y"]
    assert insert_frees(program) == program


def test_unfreed_programs_come_back_as_they_were() -> None:
    program = insert_frees(conditional_program().build())
    stripped = evolve(
        program, lines=tuple(x for x in program.lines if not isinstance(x, FreeLine))
    )
    assert insert_frees(stripped) == program
