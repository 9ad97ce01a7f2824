"""C++ and opaque kernels in graphs: how they are called, found, built and saved."""

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule

from tests.forked_processes import ProcessServer
from tests.python_emitter.running import assert_same
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.fx import (
    argument_order,
    call_kernel,
    call_key,
    definition_key,
    kernel_registry,
    split_arguments,
    split_key,
)
from wrapperir.fx.kernel_registry import register_opaque_kernel
from wrapperir.interp import interpret
from wrapperir.ir import (
    Access,
    BufferParameter,
    Device,
    DType,
    ForcedChoice,
    KernelChoice,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    Parameter,
    Program,
    ScalarParameter,
    runtime_parameters,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing.inputs import example_inputs
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.graph_module import SavedKernels, build_graph_module
from wrapperir_fx.kernel_functions import register_kernels

ADD = library_kernel(KernelKind.ADD, Language.CPP)
ROW = tensor("f32", (16,))
# Reads after it wrote, so that it matters which argument is which, and what they share.
PREFIX = KernelDefinitionLine(
    name="prefix",
    language=Language.CPP,
    parameters=(
        BufferParameter("left", DType.F32, Access.READ),
        ScalarParameter("n", DType.I64),
        BufferParameter("out", DType.F32, Access.WRITE),
        BufferParameter("right", DType.F32, Access.READ),
    ),
    entry="kernel",
    source="#include <cstdint>\n"
    'extern "C" void kernel'
    "(const float* left, int64_t n, float* out, const float* right) {\n"
    "  out[0] = 1;\n"
    "  for (int64_t i = 1; i < n; ++i) out[i] = 3 * left[i - 1] + right[i];\n"
    "}",
)


def assert_runs_as_interpreted(program: Program) -> GraphModule:
    """Build, run twice on equal inputs; compare outputs and what was mutated."""
    module = build_graph_module(program, {})
    for seed in (0, 1):
        inputs, wanted_inputs = (example_inputs(program, seed) for _ in range(2))
        assert_same(module(*inputs), interpret(program, wanted_inputs, {}))
        assert_same(inputs, wanted_inputs)
    return module


def calls(module: GraphModule) -> list[tuple[object, ...]]:
    """Return the arguments of each call of a kernel; nodes by name."""
    found = module.graph.find_nodes(op="call_function", target=call_kernel)
    return [
        (node.args[0], *[[str(item) for item in given] for given in node.args[1:]])
        for node in found
    ]


def sum_program() -> Program:
    """Return ``out = left + right``, allocated by the program."""
    builder = ProgramBuilder()
    left, right = builder.input(ROW, name="left"), builder.input(ROW, name="right")
    out = builder.allocate(ROW, name="out")
    return builder.call(builder.kernel(ADD), left, right, out, 16).build(out)


def test_a_cpp_kernel_runs_alone() -> None:
    register_kernels([ADD])
    left, right, out = torch.rand(16), torch.rand(16), torch.empty(16)
    call_kernel(definition_key(ADD), [out], [left, right], [16])
    assert torch.equal(out, left + right)


def test_a_cpp_kernel_runs_in_a_program() -> None:
    module = assert_runs_as_interpreted(sum_program())
    assert calls(module) == [(definition_key(ADD), ["out"], ["left", "right"], ["16"])]
    assert "torch.ops.wrapperir.call_kernel.default" in module.code


NUMBERS = (
    *((DType.F64, "double", 3), (DType.F32, "float", 0.1), (DType.BOOL, "bool", 0.5)),
    *((DType.I64, "int64_t", -(2**62)), (DType.I32, "int32_t", 7.0)),
    *((DType.U64, "uint64_t", 2**63 - 1), (DType.U8, "uint8_t", True)),
)


def test_numbers_become_what_their_parameters_are() -> None:
    names = [f"a{index}" for index in range(len(NUMBERS))]
    types = [(name, c) for name, (_, c, _) in zip(names, NUMBERS, strict=True)]
    kernel = KernelDefinitionLine(
        name="numbers",
        language=Language.CPP,
        parameters=(
            *(ScalarParameter(n, d) for n, (d, _, _) in zip(names, NUMBERS, strict=True)),
            BufferParameter("p", DType.F64, Access.WRITE),
        ),
        entry="kernel",
        source="#include <cstdint>\n"
        f'extern "C" void kernel({", ".join(f"{c} {n}" for n, c in types)}, double* p) {{\n'
        + "".join(f"  *p++ = double({name});\n" for name in names)
        + "}",
    )
    builder = ProgramBuilder()
    p = builder.input(tensor("f64", (len(NUMBERS),)), name="p", mutated=True)
    program = builder.call(builder.kernel(kernel), *(v for *_, v in NUMBERS), p).build()
    module = assert_runs_as_interpreted(program)
    ((_, written, read, numbers),) = calls(module)
    assert (written, read) == (["p"], [])
    assert numbers == ["3.0", "0.1", "True", str(-(2**62)), "7", str(2**63 - 1), "1"]


@pytest.mark.parametrize(
    ("left", "out", "right", "shared"),
    [
        ("x", "y", "z", []),
        ("x", "x", "z", ["left"]),
        ("z", "x", "x", ["right"]),
        ("x", "x", "x", ["left", "right"]),
        ("view", "x", "z", ["left"]),
        ("x", "view", "view", ["left", "right"]),
    ],
)
def test_what_may_share_memory_with_what_is_written_is_written(
    left: str, out: str, right: str, shared: list[str]
) -> None:
    builder = ProgramBuilder()
    given = {name: builder.input(ROW, name=name, mutated=True) for name in "xyz"}
    type = tensor("f32", (15,), offset=1)
    given["view"] = builder.reinterpret(given["x"], type, name="view")
    builder.call(builder.kernel(PREFIX), given[left], 15, given[out], given[right])
    program = builder.free(given["view"]).build()
    module = assert_runs_as_interpreted(program)
    ((key, written, read, numbers),) = calls(module)
    assert key == call_key(definition_key(PREFIX), shared)
    roles = [("left", left), ("out", out), ("right", right)]
    assert written == [name for role, name in roles if role in (*shared, "out")]
    assert read == [name for role, name in roles if role not in (*shared, "out")]
    assert numbers == ["15"]


ACCESS = st.sampled_from(Access)
PARAMETERS = st.lists(
    st.one_of(
        st.builds(BufferParameter, st.just(""), st.just(DType.F32), ACCESS),
        st.builds(ScalarParameter, st.just(""), st.just(DType.I64)),
    ),
    max_size=8,
).map(lambda found: tuple(evolve(p, name=f"p{i}") for i, p in enumerate(found)))


@given(PARAMETERS, st.sets(st.integers(0, 7)))
def test_a_key_tells_which_argument_is_which(
    parameters: tuple[Parameter, ...], places: set[int]
) -> None:
    definition = evolve(ADD, parameters=parameters)
    arguments = [parameter.name for parameter in runtime_parameters(parameters)]
    shared = [f"p{place}" for place in sorted(places) if place < len(parameters)]
    key, told = split_key(call_key(definition_key(definition), shared))
    assert (key, told) == (definition_key(definition), frozenset(shared))
    written, read, numbers = split_arguments(
        runtime_parameters(parameters), arguments, told
    )
    listed = [*written, *read, *numbers]
    assert [listed[place] for place in argument_order(definition, told)] == arguments


def test_kernels_of_one_name_are_told_apart() -> None:
    source = 'extern "C" void kernel(float* p) {{ p[0] = {}; }}'
    parameters = (BufferParameter("p", DType.F32, Access.READ_WRITE),)
    first, second = (
        evolve(ADD, parameters=parameters, entry="kernel", source=source.format(value))
        for value in (1, 2)
    )
    register_kernels([first, second])
    x = torch.zeros(2)
    call_kernel(definition_key(second), [x], [], [])
    assert x.tolist() == [2, 0]
    call_kernel(definition_key(first), [x], [], [])
    assert x.tolist() == [1, 0]


PLACES = (0, 2, 3, 1)


def test_kernels_that_compare_equal_are_told_apart() -> None:
    alike = [evolve(ADD, metadata=(("a.b", value),)) for value in (1, 1.0, True)]
    assert alike[0] == alike[1] == alike[2]
    register_kernels(alike)
    for key in {definition_key(definition) for definition in alike}:
        out = torch.zeros(2)
        call_kernel(key, [out], [torch.ones(2), torch.ones(2)], [2])
        assert out.tolist() == [2, 2]
    assert len({definition_key(definition) for definition in alike}) == 3


def test_a_multi_kernel_runs_its_choice() -> None:
    left, n, out, right = runtime_parameters(PREFIX.parameters)
    many = MultiKernelLine(
        name="many",
        parameters=(left, right, n, out),
        choices=(
            KernelChoice(ADD.name, (1, 0, 3, 2)),
            KernelChoice("prefix", (0, 2, 3, 1)),
        ),
        selection=ForcedChoice(1),
    )
    builder = ProgramBuilder()
    x, y, z = (builder.input(ROW, name=name, mutated=True) for name in "xyz")
    program = builder.call(many, x, y, 16, z).build()
    module = assert_runs_as_interpreted(evolve(program, definitions=(ADD, PREFIX, many)))
    assert calls(module) == [(definition_key(PREFIX), ["z"], ["x", "y"], ["16"])]


def test_a_kernel_that_does_not_compile_is_a_diagnostic() -> None:
    builder = ProgramBuilder()
    x = builder.input(ROW, mutated=True)
    kernel = evolve(ADD, source="this is no C++", parameters=ADD.parameters[2:3])
    program = builder.call(builder.kernel(kernel), x).build()
    build_graph(program)  # which compiles nothing
    with pytest.raises(DiagnosticError) as caught:
        build_graph_module(program, {})
    assert caught.value.diagnostics[0].code is Code.KERNEL_BUILD_FAILED
    assert f"@{kernel.name} does not compile: error: " in str(caught.value)
    with pytest.raises(DiagnosticError, match="not registered"):
        call_kernel(definition_key(kernel), [torch.zeros(1)], [], [])


def test_a_cpp_kernel_on_a_gpu_is_refused() -> None:
    cuda = Device("cuda", 0)
    builder = ProgramBuilder()
    given = [builder.input(tensor("f32", (4,), device=cuda), mutated=True) for _ in "xyz"]
    program = builder.call(builder.kernel(ADD), *given, 4, device=cuda).build()
    with pytest.raises(DiagnosticError, match="does not run on cuda:0") as caught:
        build_graph(program)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.path) == (Code.UNSUPPORTED_FEATURE, ("lines", 0))


def test_a_key_that_nobody_registered_is_a_diagnostic() -> None:
    for key in ("add:0123456789abcdef", "add", "", "a:b:c:d,e"):
        with pytest.raises(DiagnosticError) as caught:
            call_kernel(key, [torch.zeros(1)], [], [])
        assert caught.value.diagnostics[0].code is Code.UNREGISTERED_KERNEL


OPAQUE = evolve(PREFIX, name="vendor", language=Language.OPAQUE, entry="run", source="")


@pytest.fixture
def opaque() -> Iterator[GraphModule]:
    """Build a call of an opaque kernel; take its function away afterwards."""
    builder = ProgramBuilder()
    x, y = (builder.input(ROW, name=name, mutated=True) for name in "xy")
    program = builder.call(builder.kernel(OPAQUE), x, 3, y, x).build(y)
    yield build_graph_module(program, {})
    kernel_registry._OPAQUE.clear()


def test_an_opaque_kernel_runs_the_function_of_its_entry(opaque: GraphModule) -> None:
    def run(left: torch.Tensor, n: int, out: torch.Tensor, right: torch.Tensor) -> str:
        out.copy_(left * n + right)
        return "dropped"

    register_opaque_kernel("run", run)
    x, y = torch.ones(16), torch.zeros(16)
    assert opaque(x, y)[0] is y
    assert y.tolist() == [4] * 16
    register_opaque_kernel("run", lambda left, n, out, right: out.fill_(n))
    assert opaque(x, y)[0].tolist() == [3] * 16


def test_what_an_opaque_kernel_raises_says_which_it_was(opaque: GraphModule) -> None:
    def run(*arguments: object) -> None:
        raise ZeroDivisionError("on the device")

    register_opaque_kernel("run", run)
    with pytest.raises(ZeroDivisionError, match="on the device") as caught:
        opaque(torch.ones(16), torch.zeros(16))
    assert caught.value.__notes__ == ["in opaque kernel @vendor, entry run"]


def test_a_function_of_an_opaque_kernel_is_one() -> None:
    with pytest.raises(TypeError, match="entry 'run' is a str, which cannot be called"):
        register_opaque_kernel("run", "acme_run")  # type: ignore[arg-type]


def test_an_opaque_kernel_without_a_function_is_a_diagnostic(opaque: GraphModule) -> None:
    with pytest.raises(DiagnosticError, match="@vendor has no function") as caught:
        opaque(torch.ones(16), torch.zeros(16))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code is Code.UNREGISTERED_KERNEL
    assert "register_opaque_kernel" in str(diagnostic.hint)


def test_compilers_pass_over_what_runs_a_kernel() -> None:
    seen: list[GraphModule] = []

    def backend(module: GraphModule, inputs: object) -> object:
        seen.append(module)
        return module.forward

    def double(x: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(2 * x)

    definition = KernelDefinitionLine(
        name="double",
        language=Language.OPAQUE,
        parameters=(
            BufferParameter("x", DType.F32, Access.READ),
            BufferParameter("out", DType.F32, Access.WRITE),
        ),
        entry="double",
        source="",
    )

    def call(x: torch.Tensor, outs: Sequence[torch.Tensor]) -> None:
        for out in outs:  # a break in a loop: all of this function runs as it is
            torch._dynamo.graph_break()
            call_kernel(definition_key(ADD), [out], [x, x], [16])
            call_kernel(definition_key(definition), [out], [x], [])

    register_kernels([ADD, definition])
    register_opaque_kernel("double", double)
    torch._dynamo.reset()
    x, outs = torch.rand(16), [torch.empty(16) for _ in range(2)]
    try:
        torch.compile(call, backend=backend)(x, outs)
    finally:
        torch._dynamo.reset()
        kernel_registry._OPAQUE.pop("double")
    assert seen == []
    assert all(torch.equal(out, 2 * x) for out in outs)


def test_dead_code_elimination_leaves_calls() -> None:
    module = build_graph_module(sum_program(), {})
    module.graph.eliminate_dead_code()
    assert len(calls(module)) == 1


def test_fake_tensors_pass_through() -> None:
    module = build_graph_module(sum_program(), {})
    with FakeTensorMode() as mode:
        x, y = (mode.from_tensor(torch.empty(16)) for _ in range(2))
        (out,) = module(x, y)
    assert out.shape == (16,)


ADD_KEY, PREFIX_KEY = definition_key(ADD), call_key(definition_key(PREFIX), ["left"])


class Calls(torch.nn.Module):
    """Calls kernels as a graph that a user wrote might."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        out = torch.empty_strided((16,), (1,))
        call_kernel(ADD_KEY, [out], [x, y], [x.shape[0]])
        tail = torch.as_strided(out, (15,), (1,), 1)
        call_kernel(PREFIX_KEY, [out, tail], [y], [15])
        return out, tail * 2


def example() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.rand(16), torch.rand(16)


@pytest.fixture(scope="module")
def wanted() -> tuple[torch.Tensor, ...]:
    register_kernels([ADD, PREFIX])
    x, y = example()
    total = x + y
    total[1] = 1
    for i in range(1, 15):
        total[i + 1] = 3 * total[i - 1] + y[i]
    return total, total[1:] * 2


def test_a_user_may_call_kernels(wanted: Sequence[torch.Tensor]) -> None:
    assert_same(Calls()(*example()), wanted)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_calls_are_compiled_again(wanted: Sequence[torch.Tensor], backend: str) -> None:
    compiled = torch.compile(Calls(), backend=backend, fullgraph=True)
    assert_same(compiled(*example()), wanted)


def test_what_is_exported_keeps_its_writes(wanted: Sequence[torch.Tensor]) -> None:
    dynamic = ({0: torch.export.Dim("n", min=16)},) * 2
    exported = torch.export.export(Calls(), example(), dynamic_shapes=dynamic)
    assert_same(exported.module()(*example()), wanted)
    functional = exported.run_decompositions()
    assert "auto_functionalized" in functional.graph_module.code
    assert_same(functional.module()(*example()), wanted)


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_a_built_graph_is_compiled_again(backend: str) -> None:
    program = sum_program()
    compiled = torch.compile(build_graph_module(program, {}), backend=backend)
    x, y = example()
    assert_same(compiled(x, y), (x + y,))


def test_a_built_graph_is_exported() -> None:
    exported = torch.export.export(build_graph_module(sum_program(), {}), example())
    x, y = example()
    assert_same(exported.run_decompositions().module()(x, y), (x + y,))


_LOAD = """
import sys, torch
module, inputs = torch.load(sys.argv[1], weights_only=False)
torch.save(module(*inputs), sys.argv[2])
"""


def test_a_saved_module_runs_its_kernels_in_another_process(
    tmp_path: Path, process_server: ProcessServer
) -> None:
    inputs = example()
    saved, outputs = tmp_path / "module", tmp_path / "outputs"
    torch.save(copy.deepcopy(build_graph_module(sum_program(), {})), saved)
    # What was loaded from one file can be saved in another.
    torch.save((torch.load(saved, weights_only=False), inputs), saved)
    done = process_server.run("-c", _LOAD, str(saved), str(outputs))
    assert done.returncode == 0, done.stderr
    assert_same(torch.load(outputs), [inputs[0] + inputs[1]])


def test_a_copy_runs_and_keeps_its_kernels() -> None:
    module = copy.deepcopy(build_graph_module(sum_program(), {}))
    x, y = example()
    assert_same(module(x, y), (x + y,))
    assert isinstance(module._wrapperir_kernels, SavedKernels)
