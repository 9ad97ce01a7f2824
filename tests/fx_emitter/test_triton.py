"""Triton kernels in graphs: calls through PyTorch's own operator."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_mutation,
)
from torch.func import functionalize
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from tests.forked_processes import ProcessServer
from tests.fx_emitter.running import load
from tests.fx_emitter.test_kernels import ROW, assert_runs_as_interpreted
from tests.python_emitter.running import assert_same
from tests.torch_release import BEFORE_2_13
from wrapperir import compile_program
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.interp import interpret
from wrapperir.ir import (
    CPU,
    Access,
    BufferParameter,
    ConstexprParameter,
    Device,
    DType,
    Expr,
    ForcedChoice,
    KernelChoice,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    Parameter,
    Program,
    ScalarParameter,
    Symbol,
    ceildiv,
    runtime_parameters,
    tensor,
)
from wrapperir.ir.builder import BlockBuilder, NamedValue, ProgramBuilder
from wrapperir.testing.kernels import KernelKind, descriptor_kernel, library_kernel
from wrapperir.text import format_program, parse_program
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.graph_module import (
    KERNELS,
    SavedKernels,
    assemble,
    bind_kernels,
    build_graph_module,
)
from wrapperir_fx.kernel_functions import triton_calls

ADD = library_kernel(KernelKind.ADD, Language.TRITON)
CUDA = Device("cuda", 0)
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def sum_program(kernel: KernelDefinitionLine = ADD, device: Device = CPU) -> Program:
    """Return ``out = left + right``, allocated by the program."""
    builder = ProgramBuilder()
    row = tensor("f32", (16,), device=device)
    left, right = builder.input(row, name="left"), builder.input(row, name="right")
    out = builder.allocate(row, name="out")
    builder.call(builder.kernel(kernel), left, right, out, 16, device=device)
    return builder.build(out)


def the_call(module: GraphModule) -> Mapping[str, Any]:
    """Return what the one call is given."""
    ((_, node),) = triton_calls(module)
    return node.kwargs


def test_a_kernel_runs_as_interpreted() -> None:
    module = assert_runs_as_interpreted(sum_program())
    call = the_call(module)
    kwargs = {key: str(value) for key, value in call["kwargs"].items()}
    tensors = {"in_ptr0": "left", "in_ptr1": "right", "out_ptr0": "out"}
    bound = {key: str(value) for key, value in ADD.configs[0].values}
    assert kwargs == {**tensors, "xnumel": "16", **bound}
    kernel: Any = kernel_side_table.get_kernel(call["kernel_idx"])
    assert list(kernel.arg_names)[:3] == list(tensors)
    assert kernel_side_table.get_constant_args(call["constant_args_idx"]) == {}


def test_without_its_kernels_a_graph_names_them_by_their_place() -> None:
    program = sum_program()
    program = evolve(program, definitions=(evolve(ADD, name="other"), ADD))
    graph = build_graph(program).graph
    (node,) = graph.find_nodes(op="call_function", target=triton_kernel_wrapper_mutation)
    assert (node.kwargs["kernel_idx"], node.kwargs["constant_args_idx"]) == (1, 0)


SCALE = """
@triton.jit
def scale(p, n, by, XBLOCK: tl.constexpr, BY: tl.constexpr):
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    j = tl.program_id(1)
    tl.atomic_add(p + i, BY * by + j, mask=i < n)
"""


def scale(*, grid: tuple[Expr, ...], **dtypes: DType) -> KernelDefinitionLine:
    types = {"n": DType.I32, "by": DType.F32, **dtypes}
    parameters: tuple[Parameter, ...] = (
        BufferParameter("p", DType.F32, Access.READ_WRITE),
        *(ScalarParameter(name, dtype) for name, dtype in types.items()),
        *map(ConstexprParameter, ("XBLOCK", "BY")),
    )
    return KernelDefinitionLine(
        name="scale",
        language=Language.TRITON,
        parameters=parameters,
        grid=grid,
        constants=(("BY", 2),),
        configs=(
            KernelConfig((("XBLOCK", 4), ("num_warps", 2))),
            KernelConfig((("XBLOCK", 8), ("num_warps", 4))),
        ),
        entry="scale",
        source=SCALE,
    )


BLOCKS = ceildiv(Symbol("n"), Symbol("XBLOCK"))


def scaled(kernel: KernelDefinitionLine, n: Expr, by: Expr) -> Program:
    builder = ProgramBuilder()
    p = builder.input(ROW, name="p", mutated=True)
    return builder.call(builder.kernel(kernel), p, n, by).build()


def test_the_first_config_is_launched() -> None:
    program = scaled(scale(grid=(BLOCKS, Symbol("BY"))), 13, 3)
    call = the_call(assert_runs_as_interpreted(program))
    assert call["grid"] == [(4, 2, 1)]
    rest = {"n": 13, "by": 3.0, "BY": 2, "XBLOCK": 4, "num_warps": 2}
    assert {key: v for key, v in call["kwargs"].items() if key != "p"} == rest
    assert isinstance(call["kwargs"]["by"], float)


@pytest.mark.parametrize(
    ("dtype", "given", "wanted"),
    [(DType.BOOL, 3, 1), (DType.I32, 3.0, 3), (DType.F32, 3, 3), (DType.I64, True, 1)],
)
def test_a_grid_sees_numbers_as_their_parameters_are(
    dtype: DType, given: Expr, wanted: int
) -> None:
    program = scaled(scale(grid=(BLOCKS, Symbol("by")), by=dtype), 16, given)
    assert the_call(assert_runs_as_interpreted(program))["grid"] == [(4, wanted, 1)]


SIZES = """\
wrapperir 1

kernel_definition @scale triton(p: read_write f32*, n: i64, by: {dtype}) {{
  grid = (ceildiv(n, 4), by)
  entry = scale
  source {{
    | @triton.jit
    | def scale(p, n, by):
    |     i = tl.program_id(0) * 4 + tl.arange(0, 4)
    |     tl.atomic_add(p + i, by + tl.program_id(1), mask=i < n)
  }}
}}

program @main(%p: mutated f32[s0], %by: {given}) {{
  symbol s0: int = size(%p, 0)
  symbol s1: {kind} = value(%by)
  kernel_call @scale(%p, s0, s1)
  kernel_call @scale(%p, s0, s1)
  return
}}
"""


@pytest.mark.parametrize(
    ("dtype", "kind", "given", "value"),
    [
        *(("i32", "int", "i64", 2), ("i32", "float", "f64", 2.0)),
        *(
            ("bool", "float", "f64", 0.5),
            ("f32", "int", "i64", 3),
            ("bool", "bool", "bool", 1),
        ),
    ],
)
def test_a_grid_of_numbers_that_only_the_run_knows(
    dtype: str, kind: str, given: str, value: float
) -> None:
    program = parse_program(SIZES.format(dtype=dtype, kind=kind, given=given))
    module = build_graph_module(program, {})
    x, y = torch.ones(10), torch.ones(10)
    module(x, value)
    interpret(program, [y, value], {})
    assert torch.equal(x, y)
    first, second = (node.kwargs["grid"] for _, node in triton_calls(module))
    assert first == second  # the numbers are computed once


def test_a_number_that_is_not_whole_faults() -> None:
    program = parse_program(SIZES.format(dtype="i32", kind="float", given="f64"))
    module = build_graph_module(program, {})
    with pytest.raises(ValueError, match="not a whole number"):
        module(torch.ones(10), 2.5)


def descriptor_program(device: Device = CPU) -> Program:
    builder = ProgramBuilder()
    type = tensor("f32", (8, 12), device=device)
    left, right = builder.input(type), builder.input(type)
    out = builder.allocate(type)
    kernel = builder.kernel(descriptor_kernel())
    return builder.call(kernel, left, right, out, 8, 12, device=device).build(out)


def test_descriptors_are_told_by_their_blocks() -> None:
    call = the_call(assert_runs_as_interpreted(descriptor_program()))
    names = ("left", "right", "out")
    assert call["tma_descriptor_metadata"] == {n: ("stable", ([4, 4],)) for n in names}


def test_a_multi_kernel_runs_its_choice() -> None:
    back = library_kernel(KernelKind.ADD_REVERSED, Language.TRITON)
    left, right, out, n = runtime_parameters(ADD.parameters)
    many = MultiKernelLine(
        name="many",
        parameters=(left, right, n, out),
        choices=(
            KernelChoice(ADD.name, (0, 1, 3, 2)),
            KernelChoice(back.name, (1, 0, 3, 2)),
        ),
        selection=ForcedChoice(1),
    )
    builder = ProgramBuilder()
    x, y, z = (builder.input(ROW, name=name, mutated=True) for name in "xyz")
    program = builder.call(many, x, y, 16, z).build()
    program = evolve(program, definitions=(ADD, many, back))
    kwargs = the_call(assert_runs_as_interpreted(program))["kwargs"]
    assert [str(kwargs[p.name]) for p in (left, right, out)] == ["y", "x", "z"]


def test_kernels_of_nested_graphs_are_found() -> None:
    program = sum_program()
    inner = assemble(build_graph(program), {})
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("inner", (x, x)))
    module = GraphModule({"inner": inner}, graph)
    bind_kernels(module, program)
    given = torch.rand(16)
    assert torch.equal(module(given)[0], given + given)
    for each in (module, inner):
        assert isinstance(getattr(each, KERNELS), SavedKernels)


def nested_program(language: Language) -> Program:
    """Return a program that calls a kernel in one branch of a conditional."""
    kernel = library_kernel(KernelKind.SCRATCH_WRITE, language)
    builder = ProgramBuilder()
    builder.kernel(kernel)
    x = builder.input(ROW, name="x")

    def copied(block: BlockBuilder, x: NamedValue) -> NamedValue:
        total, unused = block.allocate(ROW), block.allocate(ROW)
        block.call(kernel, x, unused, total, 16)
        block.free(unused)
        return total

    chosen = builder.input(tensor("bool", ()), name="chosen")
    (out,) = builder.conditional(
        chosen,
        [x],
        copied,
        lambda block, x: block.extern("aten.neg.default", x, type=ROW),
        results=[ROW],
    )
    return builder.build(out)


@pytest.mark.parametrize("language", [Language.CPP, Language.TRITON])
def test_kernels_are_called_from_blocks(language: Language) -> None:
    module = assert_runs_as_interpreted(nested_program(language))
    assert len(list(triton_calls(module))) == (language is Language.TRITON)


@pytest.mark.skipif(
    BEFORE_2_13, reason="before 2.13 FX takes every higher-order operator for pure"
)
def test_dead_code_elimination_leaves_launches() -> None:
    module = build_graph_module(sum_program(), {})
    module.graph.eliminate_dead_code()
    assert len(list(triton_calls(module))) == 1


def test_kernels_on_a_gpu_and_elsewhere_are_refused() -> None:
    builder = ProgramBuilder()
    for device in (CPU, CUDA):
        row = tensor("f32", (16,), device=device)
        given = [builder.input(row, mutated=True) for _ in "xyz"]
        builder.call(builder.kernel(ADD), *given, 16, device=device)
    with pytest.raises(DiagnosticError, match="on the CPU and elsewhere") as caught:
        build_graph(builder.build())
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.path) == (Code.UNSUPPORTED_FEATURE, ("lines", 1))


def test_a_source_that_is_no_text_is_refused() -> None:
    with pytest.raises(DiagnosticError, match="not Unicode text"):
        build_graph(sum_program(evolve(ADD, source="'\udc80'")))


def test_a_source_that_does_not_parse_is_a_diagnostic() -> None:
    with pytest.raises(DiagnosticError, match="SyntaxError") as caught:
        build_graph_module(sum_program(evolve(ADD, source="def (")), {})
    assert caught.value.diagnostics[0].code is Code.KERNEL_BUILD_FAILED


def test_a_copy_runs_its_kernels() -> None:
    module = build_graph_module(sum_program(), {})
    x, y = torch.rand(16), torch.rand(16)
    for each in (copy.deepcopy(module), copy.copy(module)):
        assert_same(each(x, y), [x + y])


_LOAD = """
import sys, torch
from pathlib import Path
from wrapperir.text import format_program, parse_program
from wrapperir_fx.graph_module import build_graph_module
other = build_graph_module(parse_program(Path(sys.argv[1]).read_text()), {})
saved = torch.load(sys.argv[2], weights_only=False)
torch.save([module(*given) for module, given in saved], sys.argv[3])
"""


def test_saved_modules_run_their_kernels_in_another_process(
    tmp_path: Path, process_server: ProcessServer
) -> None:
    x, y = torch.rand(16), torch.rand(16)
    nested = nested_program(Language.TRITON)
    pairs = [(sum_program(), [x, y]), (nested, [x, torch.tensor(True)])]
    other, saved, outputs = (tmp_path / name for name in ("other", "saved", "outputs"))
    other.write_text(format_program(twice_program()))
    torch.save([(build_graph_module(each, {}), given) for each, given in pairs], saved)
    done = process_server.run("-c", _LOAD, str(other), str(saved), str(outputs))
    assert done.returncode == 0, done.stderr
    wanted = [interpret(each, list(given), {}) for each, given in pairs]
    for ours, theirs in zip(torch.load(outputs), wanted, strict=True):
        assert_same(ours, theirs)


def test_a_launch_is_traced_again() -> None:
    module = build_graph_module(sum_program(), {})
    x, y = torch.rand(16), torch.rand(16)
    compiled = torch.compile(module, backend="aot_eager")
    assert torch.equal(compiled(x, y)[0], x + y)
    traced = make_fx(functionalize(module))(x, y)
    assert "triton_kernel_wrapper_functional" in traced.code
    assert torch.equal(traced(x, y)[0], x + y)
    exported = torch.export.export(module, (x, y)).module()
    assert torch.equal(exported(x, y)[0], x + y)


def compiled(module: GraphModule, backend: str | None, *example: torch.Tensor) -> Any:
    """Return the module, or what a compiler of PyTorch's makes of it."""
    if backend == "inductor":  # Dynamo leaves launches to Python; Inductor itself does not
        return torch._inductor.compile(module, list(example))
    return module if backend is None else torch.compile(module, backend=backend)


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("backend", [None, "aot_eager", "inductor"])
def test_a_launch_on_a_gpu(backend: str | None) -> None:
    module = build_graph_module(sum_program(device=CUDA), {})
    x, y = (torch.rand(16, device="cuda") for _ in range(2))
    assert_same(compiled(module, backend, x, y)(x, y), [x + y])


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("backend", [None, "inductor"])
def test_descriptors_on_a_gpu(backend: str | None) -> None:
    program = descriptor_program(CUDA)
    x, y = (torch.rand(8, 12, device="cuda") for _ in range(2))
    wanted = compile_program(program)([x, y])
    assert_same(compiled(build_graph_module(program, {}), backend, x, y)(x, y), wanted)


def twice_program() -> Program:
    """Return a program whose kernel computes something else, of the same parameters."""
    source = ADD.source.replace("left + right", "left + right * 3")
    assert source != ADD.source
    return sum_program(evolve(ADD, source=source))


@pytest.mark.parametrize("between", [False, True])
def test_resetting_dynamo_leaves_a_graph_its_kernels(between: bool) -> None:
    module, call = build_graph_module(sum_program(), {}), load(sum_program(), {})
    torch._dynamo.reset()
    if between:  # PyTorch counts its indices from the size of its table
        kernel_side_table.add_kernel(object())
        kernel_side_table.add_constant_args({"out_ptr0": None})
        build_graph_module(twice_program(), {})
    x, y = torch.rand(16), torch.rand(16)
    for run in (module, module.forward, torch.compile(module, backend="aot_eager")):
        assert_same(run(x, y), [x + y])
    assert_same(call([x, y]), [x + y])


def test_resetting_dynamo_leaves_a_compiled_graph_its_kernels() -> None:
    compiled = torch.compile(build_graph_module(sum_program(), {}), backend="aot_eager")
    x, y = torch.rand(16), torch.rand(16)
    for _ in range(2):
        assert_same(compiled(x, y), [x + y])
        torch._dynamo.reset()
        build_graph_module(twice_program(), {})


def test_resetting_dynamo_leaves_nested_graphs_their_kernels() -> None:
    program = nested_program(Language.TRITON)
    module = build_graph_module(program, {})
    torch._dynamo.reset()
    build_graph_module(twice_program(), {})
    given = [torch.rand(16), torch.tensor(True)]
    assert_same(module(*given), interpret(program, list(given), {}))


def test_building_again_leaves_pytorchs_tables_as_they_are() -> None:
    first = build_graph_module(sum_program(), {})
    sizes = [len(kernel_side_table.id_to_kernel), len(kernel_side_table.constant_args)]
    second = build_graph_module(sum_program(), {})
    for key in ("kernel_idx", "constant_args_idx"):
        assert the_call(first)[key] == the_call(second)[key]
    tables = kernel_side_table.id_to_kernel, kernel_side_table.constant_args
    assert [len(table) for table in tables] == sizes


def test_kernels_of_pytorchs_own_keep_indices_of_their_own() -> None:
    build_graph_module(sum_program(), {})
    torch._dynamo.reset()
    others: list[Any] = [object() for _ in range(3)]
    indices = [kernel_side_table.add_kernel(other) for other in others]
    build_graph_module(twice_program(), {})
    assert [kernel_side_table.get_kernel(index) for index in indices] == others
