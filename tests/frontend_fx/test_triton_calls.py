"""Triton kernels of the user's in a graph: what a call of one becomes."""

import operator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_mutation,
)
from torch._subclasses import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

from tests.frontend_fx.checked import check_run, lowered
from wrapperir.diagnostics import DiagnosticError
from wrapperir.frontend.fx import lower_graph_module
from wrapperir.ir import (
    Access,
    BufferParameter,
    ConstexprParameter,
    DescriptorParameter,
    DType,
    ExprOp,
    KernelCallLine,
    KernelConfig,
    KernelDefinitionLine,
    Operation,
    Program,
    ScalarParameter,
    Symbol,
)

FACTOR = tl.constexpr(3)
TABLE = {"one": 1}
_aten = torch.ops.aten


@triton.jit
def twice(value):  # type: ignore[no-untyped-def]
    return value * 2


@triton.jit  # type: ignore[untyped-decorator]
def scale(x, out, n, shift, block: tl.constexpr, kind: tl.constexpr):  # type: ignore[no-untyped-def]
    index = tl.program_id(0) * block + tl.arange(0, block)
    value = twice(tl.load(x + index, index < n)) * FACTOR + shift
    if kind == "abs":
        value = tl.math.abs(value)
    tl.store(out + index, value, index < n)


@triton.jit  # type: ignore[untyped-decorator]
def accumulate(x, out, block: tl.constexpr):  # type: ignore[no-untyped-def]
    index = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + index, tl.load(out + index) + tl.load(x + index))


@triton.jit  # type: ignore[untyped-decorator]
def copy_block(x, out, rows, block: tl.constexpr):  # type: ignore[no-untyped-def]
    out.store([tl.program_id(0) * 4, 0], x.load([tl.program_id(0) * 4, 0]))


@triton.jit
def of_a_table(x):  # type: ignore[no-untyped-def]
    tl.store(x, TABLE["one"])


scale_tuned = triton.autotune(
    configs=[
        triton.Config({"block": 16}, num_warps=2),
        triton.Config({"block": 32}, num_warps=4),
    ],
    key=["n"],
)(scale)


class Caller:
    """Builds a graph that calls one kernel on a list of unknown length."""

    def __init__(self, shape: tuple[int, ...] = (40,)) -> None:
        self.graph = Graph()
        self.mode = FakeTensorMode(shape_env=ShapeEnv())
        self.x = self.graph.placeholder("x")
        sizes = [DimDynamic.DYNAMIC, *([DimDynamic.STATIC] * (len(shape) - 1))]
        self.x.meta["val"] = self.mode.from_tensor(
            torch.randn(shape), symbolic_context=StatelessSymbolicContext(sizes)
        )
        self.n = self.call(_aten.sym_size.int, (self.x, 0))
        size = (self.n, *shape[1:])
        stride = (1,) if len(shape) == 1 else (shape[1], 1)
        self.out = self.call(torch.empty_strided, (size, stride))

    def call(self, target: Any, args: tuple[Any, ...]) -> Any:
        """Append a call, with an example of what it returns."""
        node = self.graph.call_function(target, args)
        examples = torch.fx.map_arg(args, lambda arg: arg.meta["val"])
        with self.mode:
            node.meta["val"] = target(*examples)
        return node

    def launch(
        self, kernel: Any, grid: Any, blocks: Any = None, extra: Any = None, **kwargs: Any
    ) -> GraphModule:
        """Append the launch and return the graph's module."""
        keywords = {
            "kernel_idx": kernel_side_table.add_kernel(kernel),
            "constant_args_idx": kernel_side_table.add_constant_args(extra or {}),
            "grid": [grid],
            "tma_descriptor_metadata": blocks or {},
            "kwargs": kwargs,
        }
        self.graph.call_function(triton_kernel_wrapper_mutation, (), keywords)
        self.graph.output(self.out)
        return GraphModule({}, self.graph)


def definition_of(program: Program) -> KernelDefinitionLine:
    """Return the one kernel."""
    (definition,) = program.definitions
    assert isinstance(definition, KernelDefinitionLine)
    return definition


def scaled(grid_of: Any, kernel: Any = scale, **kwargs: Any) -> GraphModule:
    """Return a graph that scales what it is given."""
    caller = Caller()
    return caller.launch(
        kernel,
        (grid_of(caller),),
        extra={"kind": "abs", "num_warps": 2},
        x=caller.x,
        out=caller.out,
        n=caller.n,
        shift=1.5,
        **kwargs,
    )


def blocks_of_16(caller: Caller) -> Any:
    """Return the count of blocks, as nodes."""
    return caller.call(operator.floordiv, (caller.call(operator.add, (caller.n, 15)), 16))


def expected(x: torch.Tensor) -> torch.Tensor:
    """Return what the kernel computes."""
    return (x * 6 + 1.5).abs()


def test_parameters_have_the_types_of_the_arguments() -> None:
    definition = definition_of(lowered(scaled(blocks_of_16, block=16)).program)
    assert definition.parameters == (
        BufferParameter("x", DType.F32, Access.READ),
        BufferParameter("out", DType.F32, Access.WRITE),
        ScalarParameter("n", DType.I64),
        ScalarParameter("shift", DType.F32),
        ConstexprParameter("block"),
        ConstexprParameter("kind"),
    )
    assert dict(definition.constants) == {"block": 16, "kind": "abs"}
    assert definition.configs == (KernelConfig((("num_warps", 2),)),)


def test_the_source_has_what_the_kernel_uses() -> None:
    module = scaled(blocks_of_16, block=16)
    definition = definition_of(lowered(module).program)
    assert "def twice" in definition.source
    assert "FACTOR = tl.constexpr(3)" in definition.source
    x = torch.randn(50)
    check_run(module, [x], expected(x))


def test_a_grid_over_arguments_is_one_over_parameters() -> None:
    definition = definition_of(lowered(scaled(blocks_of_16, block=16)).program)
    count = Operation(ExprOp.ADD, (Symbol("n"), 15))
    assert definition.grid == (Operation(ExprOp.FLOORDIV, (count, 16)), 1, 1)


def test_a_grid_over_nothing_that_is_given_is_a_parameter() -> None:
    caller = Caller((40, 4))
    blocks = caller.call(operator.floordiv, (caller.call(operator.mul, (caller.n, 4)), 16))
    module = caller.launch(accumulate, (blocks,), x=caller.x, out=caller.x, block=16)
    definition = definition_of(lowered(module).program)
    assert definition.grid == (Symbol("grid_x"), 1, 1)
    assert definition.parameters[0] == ScalarParameter("grid_x", DType.I32)
    assert "def accumulate(grid_x, x, out" in definition.source


def test_an_input_that_a_kernel_writes_is_mutated_and_read() -> None:
    caller = Caller()
    module = caller.launch(accumulate, (2,), x=caller.x, out=caller.x, block=16)
    caller.graph.output_node().args = (caller.x,)
    program = check_run(module, [torch.ones(32)], torch.full((32,), 2.0))
    assert program.inputs[0].mutated
    modes = [p.access for p in definition_of(program).parameters if hasattr(p, "access")]
    assert modes == [Access.READ, Access.READ_WRITE]


def test_configs_of_a_tuner_are_kept() -> None:
    module = scaled(blocks_of_16, kernel=scale_tuned)
    x = torch.randn(33)
    definition = definition_of(check_run(module, [x], expected(x)))
    assert [dict(config.values)["block"] for config in definition.configs] == [16, 32]
    assert ConstexprParameter("block") in definition.parameters


def test_two_calls_of_one_kernel_share_a_definition() -> None:
    caller = Caller()
    arguments: dict[str, Any] = {"x": caller.x, "out": caller.out, "n": caller.n}
    caller.launch(scale, (3,), shift=1.5, block=16, kind="", **arguments)
    caller.graph.erase_node(caller.graph.output_node())
    module = caller.launch(scale, (3,), shift=0.5, block=16, kind="", **arguments)
    x = torch.randn(40)
    program = check_run(module, [x], x * 6 + 0.5)
    calls = [line for line in program.lines if isinstance(line, KernelCallLine)]
    assert len(calls) == 2
    # The first writes memory that has no contents, the second what has some.
    modes = [
        [p.access for p in line.parameters if isinstance(p, BufferParameter)]
        for line in program.definitions
    ]
    assert modes == [[Access.READ, Access.WRITE], [Access.READ, Access.READ_WRITE]]


def test_calls_with_other_constants_have_definitions_of_their_own() -> None:
    caller = Caller()
    arguments: dict[str, Any] = {"x": caller.x, "out": caller.out, "n": caller.n}
    caller.launch(scale, (3,), shift=1.5, block=16, kind="", **arguments)
    caller.graph.erase_node(caller.graph.output_node())
    module = caller.launch(scale, (2,), shift=0.5, block=32, kind="abs", **arguments)
    x = torch.randn(40)
    program = check_run(module, [x], (x * 6 + 0.5).abs())
    assert [line.name for line in program.definitions] == ["scale", "scale_1"]
    modes = [
        [p.access for p in line.parameters if isinstance(p, BufferParameter)]
        for line in program.definitions
    ]
    assert modes == [[Access.READ, Access.WRITE], [Access.READ, Access.READ_WRITE]]


def test_a_tensor_descriptor_is_a_parameter() -> None:
    caller = Caller((40, 4))
    blocks = {"x": ("stable", ([4, 4],)), "out": ("stable", ([4, 4],))}
    module = caller.launch(
        copy_block, (10,), blocks, x=caller.x, out=caller.out, rows=40, block=4
    )
    x = torch.randn(40, 4)
    definition = definition_of(check_run(module, [x], x))
    assert definition.parameters[0] == DescriptorParameter(
        "x", DType.F32, (4, 4), Access.READ
    )
    assert definition.parameters[1] == DescriptorParameter(
        "out", DType.F32, (4, 4), Access.WRITE
    )


def test_a_kernel_that_uses_its_module_is_refused() -> None:
    caller = Caller()
    module = caller.launch(of_a_table, (1,), x=caller.out)
    with pytest.raises(DiagnosticError, match="uses TABLE, which is a dict") as caught:
        lower_graph_module(module)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code.value == "WIR607"
    assert "node triton_kernel_wrapper_mutation" in diagnostic.message


def test_a_kernel_of_another_process_is_refused() -> None:
    caller = Caller()
    module = caller.launch(accumulate, (1,), x=caller.x, out=caller.out, block=16)
    (node,) = module.graph.find_nodes(
        op="call_function", target=triton_kernel_wrapper_mutation
    )
    node.update_kwarg("kernel_idx", 1_000_000)
    with pytest.raises(DiagnosticError, match="table of Triton kernels"):
        lower_graph_module(module)
