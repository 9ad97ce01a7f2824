"""What is fused, what is not, and what fused kernels consist of."""

from attrs import define, evolve, field

from wrapperir.ir import Device, DType, Expr, Symbol, TensorType, mul, tensor
from wrapperir.lowering.explain import DecisionKind, format_decisions
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    BufferView,
    ExternCall,
    InnerLoop,
    Item,
    Literal,
    Load,
    LoopGraph,
    Nest,
    Reduce,
    Step,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.schedule import Rounding, Schedule, SchedulingOptions, plan_kernels
from wrapperir.lowering.substitution import instructions

_SIZE: tuple[Expr, ...] = (64, 128)
_I, _J = Symbol("i"), Symbol("j")
_AXES = (Axis("i", 64), Axis("j", 128))


@define
class Graph:
    """A graph over matrices of 64 rows and 128 columns, and columns of 64."""

    buffers: dict[str, TensorType] = field(factory=dict[str, TensorType])
    items: list[Item] = field(factory=list[Item])
    inputs: list[str] = field(factory=list[str])

    def input(self, name: str, size: tuple[Expr, ...] = _SIZE) -> None:
        self.buffers[name] = tensor(DType.F32, size)
        self.inputs.append(name)

    def map(self, result: str, op: ScalarOp, *operands: str, size: int = 2) -> None:
        """Add an operator on elements of matrices, or of columns (``size`` 1)."""
        point = (_I, _J)[:size]
        body: list[Step] = []
        for name in operands:
            index = point[: len(self.buffers[name].size)]
            load = Load(result=f"v_{name}", dtype=DType.F32, buffer=name, index=index)
            body.append(load)
        values = tuple(f"v_{name}" for name in operands)
        body.append(Apply(result="y", dtype=DType.F32, op=op, operands=values))
        body.append(Store(buffer=result, index=point, value="y"))
        self.buffers.setdefault(result, tensor(DType.F32, _SIZE[:size]))
        self.items.append(Nest(name=result, axes=_AXES[:size], body=tuple(body)))

    def reduce(self, result: str, source: str, dim: int = 1) -> None:
        """Add a sum over columns or rows."""
        loop = InnerLoop(
            axes=(_AXES[dim],),
            body=(
                Load(result="x", dtype=DType.F32, buffer=source, index=(_I, _J)),
                Reduce(results=("y",), dtype=DType.F32, op=ReduceOp.SUM, operands=("x",)),
            ),
        )
        other = _AXES[1 - dim]
        store = Store(buffer=result, index=(Symbol(other.name),), value="y")
        self.buffers[result] = tensor(DType.F32, (other.extent,))
        self.items.append(Nest(name=result, axes=(other,), body=(loop, store)))

    def call(self, result: str, *operands: str) -> None:
        """Add a call that returns a matrix."""
        self.buffers[result] = tensor(DType.F32, _SIZE)
        arguments = tuple(
            (name, BufferView(buffer=name, type=self.buffers[name])) for name in operands
        )
        self.items.append(ExternCall(name=result, arguments=arguments, writes=(result,)))

    def move_to(self, device: Device) -> None:
        """Put all buffers on a device."""
        self.buffers = {n: evolve(t, device=device) for n, t in self.buffers.items()}

    def graph(self, *outputs: str) -> LoopGraph:
        """Return the graph with these outputs."""
        return LoopGraph(
            buffers=self.buffers,
            inputs=tuple(self.inputs),
            items=tuple(self.items),
            outputs=tuple(
                (name, BufferView(buffer=name, type=self.buffers[name])) for name in outputs
            ),
        )

    def plan(
        self,
        *outputs: str,
        rounding: Rounding = Rounding.FUSED,
        ordered: frozenset[str] = frozenset(),
    ) -> Schedule:
        """Return the graph's schedule."""
        options = SchedulingOptions(rounding=rounding, ordered_calls=ordered)
        return plan_kernels(self.graph(*outputs), options)


def _shape(schedule: Schedule) -> list[str]:
    """Return the buffers of each kernel, overwritten ones first, and the names of calls."""
    return [
        " ".join((*(source for _, source in item.in_place), *item.buffers))
        if isinstance(item, KernelLaunch)
        else item.name
        for item in schedule.items
    ]


def _operations(schedule: Schedule) -> list[str]:
    found: list[str] = []
    for item in schedule.items:
        assert isinstance(item, KernelLaunch)
        for each in instructions(item.kernel.nest.body):
            found += [each.op.value] if isinstance(each, Apply) else []
    return found


def test_a_value_that_only_its_kernel_reads_is_not_stored() -> None:
    graph = Graph()
    graph.input("x")
    graph.map("a", ScalarOp.EXP, "x")
    graph.map("b", ScalarOp.ADD, "a", "x")
    graph.map("c", ScalarOp.MUL, "b", "a")
    schedule = graph.plan("c")
    assert _shape(schedule) == ["x c"]
    assert {*schedule.buffers} == {"x", "c"}
    assert _operations(schedule) == ["exp", "add", "mul"]


def test_a_kernel_has_several_outputs() -> None:
    graph = Graph()
    graph.input("x")
    graph.map("a", ScalarOp.EXP, "x")
    graph.map("b", ScalarOp.NEG, "a")
    assert _shape(graph.plan("a", "b")) == ["x a b"]


def test_a_softmax_is_one_kernel() -> None:
    graph = Graph()
    graph.input("x")
    graph.map("e", ScalarOp.EXP, "x")
    graph.reduce("s", "e")
    graph.map("r", ScalarOp.RSQRT, "s", size=1)
    graph.map("y", ScalarOp.DIV, "e", "r")
    schedule = graph.plan("y")
    assert _shape(schedule) == ["x y"]
    (launch,) = schedule.items
    assert isinstance(launch, KernelLaunch)
    kinds = [type(step).__name__ for step in launch.kernel.nest.body]
    assert kinds == ["InnerLoop", "Apply", "InnerLoop"]


def test_reductions_of_equal_axes_share_a_loop() -> None:
    graph = Graph()
    graph.input("x")
    graph.reduce("s", "x")
    graph.map("q", ScalarOp.EXP, "x")
    graph.reduce("t", "q")
    schedule = graph.plan("s", "t")
    assert _shape(schedule) == ["x s t"]
    (launch,) = schedule.items
    assert isinstance(launch, KernelLaunch)
    assert sum(isinstance(step, InnerLoop) for step in launch.kernel.nest.body) == 1


def test_reductions_of_other_axes_stay_apart() -> None:
    graph = Graph()
    graph.input("x")
    graph.reduce("s", "x", dim=0)
    graph.reduce("t", "x", dim=1)
    schedule = graph.plan("s", "t")
    assert _shape(schedule) == ["x s", "x t"]
    (decision,) = schedule.decisions
    assert decision.kind is DecisionKind.KEEP
    assert "not fused: s + t, 32.0 KiB: " in format_decisions(schedule.decisions)


def test_a_call_between_two_kernels_keeps_them_apart() -> None:
    graph = Graph()
    graph.input("x")
    graph.map("a", ScalarOp.EXP, "x")
    graph.call("b", "a")
    graph.map("c", ScalarOp.ADD, "a", "b")
    schedule = graph.plan("c")
    assert _shape(schedule) == ["x a", "b", "a b c"]
    (decision,) = schedule.decisions
    assert decision.reason == "an item between them needs the first"


def test_a_call_that_needs_neither_is_no_barrier() -> None:
    graph = Graph()
    graph.input("x")
    graph.input("z")
    graph.map("a", ScalarOp.EXP, "x")
    graph.call("b", "z")
    graph.map("c", ScalarOp.ADD, "a", "x")
    assert _shape(graph.plan("b", "c")) == ["b", "x c"]


def test_calls_that_draw_numbers_keep_their_order() -> None:
    graph = Graph()
    graph.input("x")
    graph.map("a", ScalarOp.EXP, "x")
    graph.call("first", "a")
    graph.call("second", "x")
    graph.map("c", ScalarOp.ADD, "a", "second")
    loose = graph.plan("first", "second", "c")
    assert _shape(loose) == ["second", "x second a c", "first"]
    ordered = graph.plan("first", "second", "c", ordered=frozenset({"first", "second"}))
    assert _shape(ordered) == ["x a", "first", "second", "a second c"]


def test_an_update_in_place_keeps_the_order_of_reads() -> None:
    graph = Graph()
    graph.input("x")
    graph.map("a", ScalarOp.EXP, "x")
    graph.map("x", ScalarOp.NEG, "x")
    graph.map("b", ScalarOp.ADD, "x", "a")
    schedule = graph.plan("x", "b")
    assert _shape(schedule) == ["x b"]
    (launch,) = schedule.items
    assert isinstance(launch, KernelLaunch)
    loads = [s for s in launch.kernel.nest.body if isinstance(s, Load)]
    assert len(loads) == 1


def test_atomic_updates_are_barriers() -> None:
    graph = Graph()
    graph.input("x")
    graph.map("a", ScalarOp.EXP, "x")
    graph.map("t", ScalarOp.NEG, "x")
    load = Load(result="v", dtype=DType.F32, buffer="a", index=(_I, _J))
    add = Store(buffer="t", index=(0, _J), value="v", mode=StoreMode.ADD)
    graph.items.append(Nest(name="add", axes=_AXES, body=(load, add)))
    graph.map("b", ScalarOp.ADD, "t", "x")
    schedule = graph.plan("b")
    assert _shape(schedule) == ["x t", "x t", "t x b"]


def test_casts_to_half_types_and_back_are_dropped_unless_rounding_is_eager() -> None:
    graph = Graph()
    graph.input("x")
    for number in range(2):
        source, target = ("x", "h") if number == 0 else ("h", "y")
        loaded = DType.F32 if number == 0 else DType.BF16
        stored = DType.BF16 if number == 0 else DType.F32
        body: tuple[Step, ...] = (
            Load(result="v", dtype=loaded, buffer=source, index=(_I, _J)),
            Apply(result="w", dtype=stored, op=ScalarOp.CAST, operands=("v",)),
            Store(buffer=target, index=(_I, _J), value="w"),
        )
        graph.buffers[target] = tensor(stored, _SIZE)
        graph.items.append(Nest(name=target, axes=_AXES, body=body))
    assert _operations(graph.plan("y")) == []
    assert _operations(graph.plan("y", rounding=Rounding.EAGER)) == ["cast", "cast"]


def test_a_transposed_reader_computes_its_producer() -> None:
    graph = Graph()
    graph.input("x")
    graph.map("a", ScalarOp.EXP, "x")
    body: tuple[Step, ...] = (
        Load(result="v", dtype=DType.F32, buffer="a", index=(_J, _I)),
        Apply(result="w", dtype=DType.F32, op=ScalarOp.NEG, operands=("v",)),
        Store(buffer="t", index=(_I, _J), value="w"),
    )
    graph.buffers["t"] = tensor(DType.F32, (128, 64))
    axes = (Axis("i", 128), Axis("j", 64))
    graph.items.append(Nest(name="t", axes=axes, body=body))
    schedule = graph.plan("t")
    assert _shape(schedule) == ["x t"]
    (launch,) = schedule.items
    assert isinstance(launch, KernelLaunch)
    assert len(launch.kernel.tiling.blocks) == 2


def test_a_masked_reader_masks_what_its_producer_loads() -> None:
    graph = Graph()
    graph.input("x", (64,))
    graph.map("a", ScalarOp.EXP, "x", size=1)
    body: tuple[Step, ...] = (
        Load(result="m", dtype=DType.BOOL, buffer="m", index=(_I,)),
        Load(result="v", dtype=DType.F32, buffer="a", index=(_I - 1,), mask="m", other=7.0),
        Store(buffer="p", index=(_I,), value="v"),
    )
    graph.buffers["m"] = tensor(DType.BOOL, (66,))
    graph.inputs.append("m")
    graph.buffers["p"] = tensor(DType.F32, (66,))
    graph.items.append(Nest(name="p", axes=(Axis("i", 66),), body=body))
    schedule = graph.plan("p")
    assert _shape(schedule) == ["m x p"]
    (launch,) = schedule.items
    assert isinstance(launch, KernelLaunch)
    loads = [s for s in launch.kernel.nest.body if isinstance(s, Load)]
    assert [load.mask for load in loads] == [None, loads[0].result]
    assert _operations(schedule) == ["exp", "where"]


def test_a_value_is_computed_again_where_that_reads_less() -> None:
    graph = Graph()
    graph.input("x")
    graph.input("m", (64,))
    graph.map("c", ScalarOp.SUB, "x", "m")
    graph.reduce("s", "c", dim=1)
    graph.map("d", ScalarOp.DIV, "c", "s")
    graph.reduce("t", "c", dim=0)
    assert _shape(graph.plan("d", "t")) == ["m x d", "x m t"]


def test_extents_written_in_different_ways_are_one_space() -> None:
    size = Symbol("s0")
    graph = Graph()
    graph.input("x", (mul(size, 4),))
    for source, target, extent in (("x", "a", mul(size, 4)), ("a", "b", mul(4, size))):
        body: tuple[Step, ...] = (
            Load(result="v", dtype=DType.F32, buffer=source, index=(_I,)),
            Apply(result="w", dtype=DType.F32, op=ScalarOp.EXP, operands=("v",)),
            Store(buffer=target, index=(_I,), value="w"),
        )
        graph.buffers[target] = tensor(DType.F32, (extent,))
        graph.items.append(Nest(name=target, axes=(Axis("i", extent),), body=body))
    assert _shape(graph.plan("a", "b")) == ["x a b"]


def test_a_reader_of_few_values_computes_them() -> None:
    graph = Graph()
    graph.input("x")
    graph.map("e", ScalarOp.EXP, "x")
    graph.reduce("s", "e")
    graph.map("l", ScalarOp.SUB, "x", "s")
    body: tuple[Step, ...] = (
        Load(result="v", dtype=DType.F32, buffer="l", index=(_I, 127)),
        Store(buffer="last", index=(_I,), value="v"),
    )
    graph.buffers["last"] = tensor(DType.F32, (64,))
    graph.items.append(Nest(name="last", axes=_AXES[:1], body=body))
    assert _shape(graph.plan("last")) == ["x last"]


def test_a_reader_of_few_values_does_not_keep_those_of_many_layers() -> None:
    graph = Graph()
    graph.input("x")
    names = ["x"]
    for layer in range(4):
        graph.call(f"a{layer}", names[-1])
        graph.map(f"b{layer}", ScalarOp.ADD, names[-1], f"a{layer}")
        names.append(f"b{layer}")
    body: tuple[Step, ...] = (
        Load(result="v", dtype=DType.F32, buffer=names[-1], index=(_I, 127)),
        Store(buffer="last", index=(_I,), value="v"),
    )
    graph.buffers["last"] = tensor(DType.F32, (64,))
    graph.items.append(Nest(name="last", axes=_AXES[:1], body=body))
    *_, kernel = graph.plan("last").items
    assert isinstance(kernel, KernelLaunch)
    assert kernel.buffers == ("b2", "a3", "last")


def test_operators_that_change_no_bit_are_dropped() -> None:
    graph = Graph()
    graph.input("x")
    body: list[Step] = [Load(result="v", dtype=DType.F32, buffer="x", index=(_I, _J))]
    value = "v"
    for number, (op, literal) in enumerate(
        [
            (ScalarOp.MUL, 1.0),
            (ScalarOp.DIV, 1.0),
            (ScalarOp.SUB, 0.0),
            (ScalarOp.ADD, 0.0),
            (ScalarOp.SUB, -0.0),
        ]
    ):
        body.append(Literal(result=f"c{number}", dtype=DType.F32, value=literal))
        operands = (value, f"c{number}")
        value = f"w{number}"
        body.append(Apply(result=value, dtype=DType.F32, op=op, operands=operands))
    body.append(Store(buffer="y", index=(_I, _J), value=value))
    graph.buffers["y"] = tensor(DType.F32, _SIZE)
    graph.items.append(Nest(name="y", axes=_AXES, body=tuple(body)))
    assert _operations(graph.plan("y")) == ["add", "sub"]


def test_an_empty_nest_that_nothing_reads_is_dropped() -> None:
    graph = Graph()
    graph.input("x")
    graph.map("y", ScalarOp.EXP, "x")
    load = Load(result="v", dtype=DType.F32, buffer="x", index=(_I, 0))
    store = Store(buffer="e", index=(_I,), value="v")
    graph.buffers["e"] = tensor(DType.F32, (0,))
    graph.items.append(Nest(name="e", axes=(Axis("i", 0),), body=(load, store)))
    assert _shape(graph.plan("y")) == ["x y"]
    assert _shape(graph.plan("y", "e")) == ["x y", "x e"]


def test_parts_of_a_buffer_are_written_by_one_kernel() -> None:
    for parts in ((_I, _I + 64), (_I * 2, _I * 2 + 1)):
        graph = Graph()
        graph.buffers["y"] = tensor(DType.F32, (128, 128))
        for number, part in enumerate(parts):
            source = f"x{number}"
            graph.input(source)
            body: tuple[Step, ...] = (
                Load(result="v", dtype=DType.F32, buffer=source, index=(_I, _J)),
                Store(buffer="y", index=(part, _J), value="v"),
            )
            graph.items.append(Nest(name=source, axes=_AXES, body=body))
        assert _shape(graph.plan("y")) == ["x0 x1 y"]
