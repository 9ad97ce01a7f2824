"""What values look like: declared layouts, symbols with ranges, no decision for a run."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from tests.draws import draws
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.ir import (
    Device,
    DType,
    EvaluationError,
    EventType,
    Expr,
    ExprOp,
    Input,
    ItemOf,
    OffsetOf,
    OpaqueType,
    Operation,
    PoolType,
    Program,
    ScalarType,
    SizeOf,
    Symbol,
    SymbolDefinitionLine,
    SymbolKind,
    SymbolSource,
    TensorType,
    TupleType,
    ValueOf,
    ValueType,
    accepts_arity,
    evaluate,
    tensor,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import definitions
from wrapperir.testing import programs
from wrapperir.testing.arbitrary import exprs
from wrapperir_fx.fake_values import FakeValues
from wrapperir_fx.symbolic_arithmetic import SymbolicNumber

N, M, K = Symbol("n"), Symbol("m"), Symbol("k")


def defined(
    symbol: str,
    source: SymbolSource,
    lower: int | None = None,
    upper: int | None = None,
    kind: SymbolKind = SymbolKind.INT,
) -> SymbolDefinitionLine:
    return SymbolDefinitionLine(
        symbol=symbol, kind=kind, lower=lower, upper=upper, source=source
    )


def dynamic(*more: SymbolDefinitionLine) -> FakeValues:
    """Values of a program of an ``n`` by ``m`` matrix, ``m`` small, and a ``k``."""
    return FakeValues(
        ProgramFacts(
            Program(
                inputs=(
                    Input(name="x", type=tensor("f32", (N, M))),
                    Input(name="y", type=ScalarType(DType.I64)),
                    Input(name="z", type=ScalarType(DType.F64)),
                ),
                symbols=(
                    defined("n", SizeOf("x", 0), 2),
                    defined("m", SizeOf("x", 1), 1, 7),
                    defined("k", ValueOf("y"), -5, 40),
                ),
                lines=more,
            )
        )
    )


def fake(value: object) -> FakeTensor:
    assert isinstance(value, FakeTensor)
    return value


def written(number: object) -> str:
    """Show a number without asking for its value, which would decide it."""
    return str(number)


def check_undecided(values: FakeValues) -> None:
    env = values.mode.shape_env
    assert env is not None
    assert not env.guards
    assert not env.deferred_runtime_asserts
    assert not env.replacements
    assert not env.pending_fresh_unbacked_symbols


def bounds(values: FakeValues, number: SymbolicNumber) -> tuple[str, str]:
    assert isinstance(number, torch.SymInt)
    env = values.mode.shape_env
    assert env is not None
    found = env.bound_sympy(number.node.expr)
    return str(found.lower), str(found.upper)


def check_look(values: FakeValues, type: ValueType, look: object) -> None:
    match type:
        case TensorType():
            tensor = fake(look)
            assert tensor.dtype is torch_dtype(type.dtype)
            assert [written(n) for n in tensor.size()] == shown(values, type.size)
            assert [written(n) for n in tensor.stride()] == shown(values, type.stride)
            begin = tensor.storage_offset()
            assert [written(begin)] == shown(values, (type.offset,))
            assert tensor.device == torch.device(str(type.device))
            assert tensor.fake_mode is values.mode
        case PoolType():
            assert fake(look).dtype is torch.uint8
            assert [written(n) for n in fake(look).size()] == shown(values, (type.size,))
        case TupleType():
            assert isinstance(look, tuple)
            for element, part in zip(type.elements, look, strict=True):
                check_look(values, element, part)
        case ScalarType():
            assert isinstance(look, int | float | torch.SymInt | torch.SymFloat)
        case _:
            assert look is None


def shown(values: FakeValues, exprs: tuple[Expr, ...]) -> list[str]:
    return [written(values.number(expr)) for expr in exprs]


@given(programs())
def test_values_look_as_the_types_of_a_program_say(program: Program) -> None:
    values = FakeValues(ProgramFacts(program))
    entries = [(item.name, item.type) for item in program.inputs]
    entries += [(item.name, item.type) for item in program.constants]
    for line in walk_lines(program.lines):
        entries += definitions(line)
        if isinstance(line, SymbolDefinitionLine):
            values.number(Symbol(line.symbol))
    for name, type in entries:
        check_look(values, type, values.of(type, name))
    check_undecided(values)


_sizes = st.sampled_from((0, 1, 2, 9, N, M, N * M, N + 1, Operation(ExprOp.MAX, (N, M))))


@given(
    st.sampled_from(DType),
    st.lists(st.tuples(_sizes, _sizes), max_size=4),
    st.sampled_from((0, 5, N, M * 3)),
    st.sampled_from((Device("cpu"), Device("cuda", 0), Device("cuda", 1))),
)
def test_tensors_have_the_layout_of_their_type(
    dtype: DType, entries: list[tuple[Expr, Expr]], offset: Expr, device: Device
) -> None:
    size, stride = tuple(n for n, _ in entries), tuple(n for _, n in entries)
    type = tensor(dtype, size, stride, offset=offset, device=device)
    values = dynamic()
    check_look(values, type, values.of(type))
    source = values.of(tensor("i32", (64, N), device=device))
    view = values.view(source, type)
    check_look(values, type, view)
    assert fake(view).untyped_storage()._cdata == fake(source).untyped_storage()._cdata
    check_undecided(values)


def test_each_value_has_a_storage_of_its_own() -> None:
    values = dynamic()
    for type in (tensor("f32", (8, 8)), tensor("f32", (N, 8)), PoolType(size=64)):
        one, other = fake(values.of(type)), fake(values.of(type))
        assert one is not other
        assert one.untyped_storage()._cdata != other.untyped_storage()._cdata


def test_a_view_begins_where_it_is_told() -> None:
    values = dynamic()
    pool = values.of(PoolType(size=N * 4))
    view = fake(values.view(pool, tensor("f32", (4,)), values.number(N + 1)))
    assert written(view.storage_offset()) == written(values.number(N + 1))
    again = fake(values.view(view, tensor("i32", (2,), offset=3)))
    assert again.storage_offset() == 3
    assert again.untyped_storage()._cdata == fake(pool).untyped_storage()._cdata
    inner = fake(values.view(pool, PoolType(size=16)))
    assert inner.untyped_storage()._cdata == fake(pool).untyped_storage()._cdata
    check_undecided(values)


def test_a_storage_has_the_bytes_of_what_is_in_it() -> None:
    values = dynamic()
    look = fake(values.of(tensor("f32", (4, 2), (5, 1), offset=3)))
    assert look.untyped_storage().nbytes() == 4 * (3 + 17)
    look = fake(values.of(tensor("f16", (N,), offset=M)))
    storage = written(look.untyped_storage().nbytes())
    assert storage == written(values.number((M + 1 + (N - 1)) * 2))
    check_undecided(values)


def test_fake_tensors_are_such_as_pytorch_makes() -> None:
    values = dynamic()
    for device in ("cpu", "cuda:0"):
        with values.mode:
            expected = torch.empty_strided((4, 2), (1, 4), device=device)
        kind, _, index = device.partition(":")
        place = Device(kind, int(index) if index else None)
        look = fake(values.of(tensor("f32", (4, 2), (1, 4), device=place)))
        assert vars(look) == vars(expected)
        keys = torch._C._dispatch_keys
        assert keys(look) == keys(expected)
        assert torch.relu(look).device == torch.device(device)


def test_a_device_that_torch_does_not_know_is_meta() -> None:
    values = dynamic()
    look = fake(values.of(tensor("f32", (2, N), device=Device("acme", 0))))
    assert look.device == torch.device("meta")
    assert written(look.size(1)) == written(values.number(N))


def test_a_gpu_that_is_not_there_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(fake_tensor, "init_gpu_context", touched.append)
    fakes = FakeValues(ProgramFacts(Program()))
    for index in (1, 2):
        place = torch.device("cuda", index)
        found = fakes.of(tensor("f32", (2,), device=Device("cuda", index)))
        assert isinstance(found, FakeTensor)
        assert found.device == found.fake_device == place
    assert torch.device("cuda", 2) not in touched
    assert torch.device("cuda", 1) in touched


def test_values_are_made_under_any_mode() -> None:
    type = tensor("f32", (2, N), offset=N)
    with FakeTensorMode():
        values = dynamic()
        look = values.of(type)
        view = values.view(look, tensor("i64", (2,)))
    check_look(values, type, look)
    assert fake(view).fake_mode is values.mode


def test_symbols_stay_apart_and_have_their_ranges() -> None:
    values = dynamic(defined("u", ItemOf("x"), 3, 9), defined("w", SizeOf("r", 0)))
    numbers = [values.number(Symbol(name)) for name in ("n", "m", "k", "u", "w")]
    assert len({written(number) for number in numbers}) == 5
    ranges = [bounds(values, number) for number in numbers]
    assert ranges == [
        ("2", "int_oo"),
        ("1", "7"),
        ("-5", "40"),
        ("3", "9"),
        ("0", "int_oo"),
    ]
    backed = [
        number.node.has_hint() for number in numbers if isinstance(number, torch.SymInt)
    ]
    assert backed == [True, True, True, False, False]
    hints = [number.node.hint for number in numbers[:3] if isinstance(number, torch.SymInt)]
    assert len(set(hints)) == 3
    check_undecided(values)


def test_symbols_of_one_narrow_range_stay_apart() -> None:
    names = [f"s{number}" for number in range(5)]
    type = tensor("f32", tuple(Symbol(name) for name in names))
    symbols = [defined(name, SizeOf("x", dim), 0, 1) for dim, name in enumerate(names)]
    program = Program(inputs=(Input(name="x", type=type),), symbols=tuple(symbols))
    values = FakeValues(ProgramFacts(program))
    look = fake(values.of(type))
    assert len({written(size) for size in look.size()}) == 5
    check_undecided(values)


def test_a_symbol_is_what_it_is_read_from() -> None:
    lines = (
        defined("twice", N * 2),
        defined("rows", SizeOf("x", 0)),
        defined("begin", OffsetOf("x")),
        defined("y_", ValueOf("y")),
        defined("real", ValueOf("y"), kind=SymbolKind.FLOAT),
        defined("positive", Operation(ExprOp.GT, (K, 0)), kind=SymbolKind.BOOL),
    )
    values = dynamic(*lines)
    known = {line.symbol: values.number(Symbol(line.symbol)) for line in lines}
    assert written(known["twice"]) == written(values.number(N * 2))
    assert written(known["rows"]) == written(values.number(N))
    assert known["begin"] == 0
    assert written(known["y_"]) == written(values.number(K))
    assert written(values.of(ScalarType(DType.I64), "y")) == written(values.number(K))
    assert isinstance(known["real"], torch.SymFloat)
    assert isinstance(known["positive"], torch.SymBool)
    check_undecided(values)


def test_a_size_that_is_its_own_symbol_plus_one() -> None:
    values = FakeValues(
        ProgramFacts(
            Program(
                inputs=(Input(name="x", type=tensor("f32", (N + 1,))),),
                symbols=(
                    defined("all", SizeOf("x", 0), 1),
                    defined("n", Symbol("all") - 1, 0),
                ),
            )
        )
    )
    look = fake(values.of(tensor("f32", (N + 1,))))
    assert written(look.size(0)) == written(values.number(Symbol("all")))


def test_numbers_that_are_no_tensors() -> None:
    values = dynamic()
    assert isinstance(values.of(ScalarType(DType.F64), "z"), torch.SymFloat)
    assert isinstance(values.of(ScalarType(DType.BOOL), "b"), torch.SymBool)
    assert written(values.of(ScalarType(DType.I64), "a")) != written(
        values.of(ScalarType(DType.I64), "b")
    )
    assert values.of(OpaqueType("script object")) is None
    assert values.of(EventType(Device("cuda", 0))) is None
    pair = values.of(TupleType((tensor("f32", (2,)), OpaqueType(""))))
    assert isinstance(pair, tuple)
    assert fake(pair[0]).size() == (2,)
    assert pair[1] is None


def test_one_and_one_point_zero_are_two_numbers() -> None:
    values = dynamic()
    assert isinstance(values.number(N + 1), torch.SymInt)
    assert isinstance(values.number(N + 1.0), torch.SymFloat)


def test_zeros_of_two_signs_are_two_numbers() -> None:
    values = dynamic()
    zeros = [Operation(ExprOp.MUL, (zero, 1)) for zero in (0.0, -0.0)]
    assert [repr(values.number(expr)) for expr in zeros] == ["0.0", "-0.0"]


@pytest.mark.parametrize(
    ("kind", "look"),
    [
        (SymbolKind.INT, torch.SymInt),
        (SymbolKind.FLOAT, torch.SymFloat),
        (SymbolKind.BOOL, torch.SymBool),
    ],
)
def test_conversions_give_numbers_of_their_kind(kind: SymbolKind, look: type) -> None:
    values = dynamic()
    for expr in (K, Operation(ExprOp.TRUEDIV, (K, 2)), Operation(ExprOp.LT, (K, N))):
        assert isinstance(values.converted(values.number(expr), kind), look)
    check_undecided(values)


_NAMES = ("a", "b", "c")


@st.composite
def _computed(draw: st.DrawFn, depth: int = 2) -> Expr:
    """Draw an expression of any operator that mostly has a value."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        leaves: tuple[Expr, ...] = (*map(Symbol, _NAMES), 2, 3, -7, 0.5)
        return draw(st.sampled_from(leaves))
    op = draw(st.sampled_from(ExprOp))
    arity = next(count for count in (1, 2, 3) if accepts_arity(op, count))
    return Operation(op, tuple(draw(_computed(depth - 1)) for _ in range(arity)))


@settings(max_examples=draws(40, fuzz=100))
@given(_computed())
def test_expressions_mean_what_the_interpreter_computes(expr: Expr) -> None:
    inputs = tuple(Input(name=f"i{name}", type=ScalarType(DType.I64)) for name in _NAMES)
    symbols = tuple(defined(name, ValueOf(f"i{name}"), -5, 50) for name in _NAMES)
    values = FakeValues(ProgramFacts(Program(inputs=inputs, symbols=symbols)))
    known = {}
    for name in _NAMES:
        number = values.number(Symbol(name))
        assert isinstance(number, torch.SymInt)
        known[name] = number.node.hint
    number = values.number(expr)
    check_undecided(values)
    try:
        expected = evaluate(expr, known)
    except EvaluationError:
        return
    if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
        if not number.node.has_hint():
            return
        number = number.node.hint
    assert float(number) == pytest.approx(float(expected))


@given(exprs)
def test_any_expression_has_a_number(expr: Expr) -> None:
    values = dynamic()
    assert isinstance(
        values.number(expr), int | float | torch.SymInt | torch.SymFloat | torch.SymBool
    )
    check_undecided(values)
