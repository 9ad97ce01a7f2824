"""The emitted module as a whole: it stands alone, releases early, and pastes nothing."""

import gc
import keyword
import os
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.forked_processes import ProcessServer
from tests.python_emitter.line_cases import CASES
from tests.python_emitter.running import assert_runs_as_interpreted, run_emitted
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import compile_program, read_artifact, write_artifact
from wrapperir.ir import (
    Device,
    Language,
    Program,
    VendorLayout,
    tensor,
)
from wrapperir.ir.builder import BlockBuilder, NamedValue, Operand, ProgramBuilder
from wrapperir.testing.programs import programs
from wrapperir.text import parse_program
from wrapperir_python.emitter import PythonEmitter

PLAIN = tensor("f32", (2, 3))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(programs(languages=(Language.CPP,)), st.integers(0, 9))
def test_any_program_runs_as_it_is_interpreted(program: Program, seed: int) -> None:
    assert_runs_as_interpreted(program, seed)


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(programs(languages=(Language.TRITON, Language.CPP)), st.integers(0, 9))
def test_any_program_with_triton_runs_as_it_is_interpreted(
    program: Program, seed: int
) -> None:
    assert_runs_as_interpreted(program, seed)


def test_emitting_is_deterministic() -> None:
    program = parse_program(CASES["conditional"].text)
    assert PythonEmitter().emit(program) == PythonEmitter().emit(program)


BLOCKED = """
import importlib.abc, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("wrapperir", "wrapperir_python"):
            raise ImportError(name)

sys.meta_path.insert(0, Block())
import torch
sys.path.insert(0, {directory!r})
import program
program.bind_constants({{"fc.weight": torch.eye(8)}})
x = torch.ones(4, 8)
(out,) = program.call([x, torch.full((8, 8), 2.0), 5, torch.tensor(True)])
print(out.sum().item())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "total"), [("kernel_call, C++", -32.0), ("kernel_call, Triton", 64.0)]
)
def test_the_module_runs_without_wrapperir(
    case: str, total: float, tmp_path: Path, process_server: ProcessServer
) -> None:
    program = parse_program(CASES[case].text)
    write_artifact(PythonEmitter().emit(program), tmp_path / "out")
    run_path = f"runpy.run_path('{tmp_path}/out/program.py', run_name='__main__')"
    scripts = [
        BLOCKED.format(directory=str(tmp_path / "out")),
        f"import runpy; {run_path}",
    ]
    for script in scripts:
        if "Triton" in case:  # it reads the setting when it is imported
            environment = {**os.environ, "TRITON_INTERPRET": "1"}
            command = [sys.executable, "-c", script]
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
        else:
            done = process_server.run("-c", script)
        assert done.returncode == 0, done.stderr
        assert script is scripts[1] or float(done.stdout) == total


def test_the_module_passes_a_linter(tmp_path: Path) -> None:
    for number, case in enumerate(CASES.values()):
        write_artifact(
            PythonEmitter().emit(parse_program(case.text)), tmp_path / f"{number}"
        )
    command = ["ruff", "check", "--isolated", "--select", "F,E9", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_artifact_is_loaded_after_it_was_written(tmp_path: Path) -> None:
    program = parse_program(CASES["kernel_call, Triton"].text)
    emitter = PythonEmitter()
    write_artifact(emitter.emit(program), tmp_path)
    call = emitter.load(read_artifact(tmp_path), {"fc.weight": torch.eye(8)})
    x = torch.ones(4, 8)
    (out,) = call([x, torch.ones(8, 8), 5, torch.tensor(True)])
    assert torch.equal(out, x * 2)  # type: ignore[arg-type]


def test_an_input_is_released_where_the_program_frees_it() -> None:
    builder = ProgramBuilder()
    x = builder.input(PLAIN)
    y = builder.extern("aten.relu.default", x, type=PLAIN)
    builder.free(x)
    builder.comment("here")
    z = builder.extern("wrapperir_test.probe.default", y, type=PLAIN)
    builder.free(y)
    seen: list[bool] = []
    references: list[weakref.ref[torch.Tensor]] = []

    with torch.library._scoped_library("wrapperir_test", "DEF") as library:
        library.define("probe(Tensor x) -> Tensor")

        def probe(value: torch.Tensor) -> torch.Tensor:
            seen.append(references[0]() is None)
            return value.clone()

        library.impl("probe", probe, "CPU")
        emitter = PythonEmitter()
        call = emitter.load(emitter.emit(builder.build(z)), {})
        args = [torch.ones(2, 3)]
        references.append(weakref.ref(args[0]))
        call(args)  # type: ignore[arg-type]
    assert seen == [True]


def test_memory_goes_with_its_last_name() -> None:
    program = parse_program(CASES["while_loop"].text)
    emitter = PythonEmitter()
    call = emitter.load(emitter.emit(program), {"fc.weight": torch.eye(8)})
    gc.collect()
    before = live_tensors()
    outputs = call([torch.ones(4, 8), torch.eye(8), 5, torch.tensor(True)])
    assert live_tensors() == before + len(outputs)


def live_tensors() -> int:
    return sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())


WORDS = [
    *keyword.kwlist,
    *("args", "call", "torch", "bind_constants", "constants", "print", "min", "int"),
    *("empty_strided_cpu", "float32", "aten_relu_default", "__debug__", "__name__"),
    *("first", "go_on", "globals", "async_compile", "AsyncCompile", "self", "match"),
]


def program_named(names: Sequence[str]) -> Program:
    builder = ProgramBuilder()
    values = [builder.input(PLAIN, name=name) for name in names]
    results = []
    for index, value in enumerate(values):
        made = builder.extern("aten.add.Scalar", value, index, type=PLAIN)
        builder.free(value)
        results.append(made)
    return builder.build(*results)


@pytest.mark.parametrize("name", WORDS)
def test_a_value_may_have_any_name(name: str) -> None:
    names = [name, f"{name}_", f"{name}__"]
    inputs = [torch.full((2, 3), float(n)) for n in range(3)]
    outputs = run_emitted(program_named(names), list(inputs), {})
    for index, out in enumerate(outputs):
        assert torch.equal(out, inputs[index] + index)  # type: ignore[arg-type]


def test_values_symbols_and_kernels_may_share_a_name() -> None:
    text = """\
wrapperir 1

kernel_definition @s0 cpp(s0: read_write f32*, n: i64) {
  entry = kernel
  source {
    | extern "C" void kernel(float* p, long n) { p[0] += n; }
  }
}

program @s0(%s0: mutated f32[s0], %call: f32[2]) {
  symbol s0: int 2.. = size(%s0, 0)
  kernel_call @s0(%s0, s0)
  return s0, none
}
"""
    x = torch.zeros(3)
    assert run_emitted(parse_program(text), [x, torch.ones(2)], {}) == (3, None)
    assert x[0] == 3


HOSTILE = [
    "\nraise SystemExit\n",
    "'''\nraise SystemExit\n'''",
    '"); raise SystemExit  # ',
    "\\",
    "{x} {{}} %s",
    "\u2028raise SystemExit",
    "\x00\r\n\x0c\x85",
    "coding: utf-7",
    "\udc80",
    '"""',
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    builder = ProgramBuilder()
    x = builder.input(PLAIN)
    weight = builder.constant(PLAIN, text)
    builder.at(builder.origin("a", operator=text, module=text, stack=[(text, 3, text)]))
    builder.comment(text)
    builder.assert_size_stride(x, (2, 3), (3, 1), text)
    builder.assert_alignment(x, 4, text)
    builder.assert_scalar(1, text)
    builder.assert_not_nan(x, text)
    y = builder.extern("aten.div.Tensor_mode", x, weight, type=PLAIN, rounding_mode=text)
    program = builder.build(y)
    artifact = PythonEmitter().emit(program)
    source = str(artifact.files["program.py"])
    assert source.isascii()
    assert len(source.splitlines()) == len(source.split("\n")) - 1
    call = PythonEmitter().load(artifact, {text: torch.ones(2, 3)})
    # PyTorch gets the text as it is, and refuses it.
    with pytest.raises((RuntimeError, ValueError)):
        call([torch.ones(2, 3)])


@pytest.mark.parametrize(
    "operator",
    [
        "aten.mm",
        "load_library.__call__.__call__",
        "aten.mm.__init__",
        "aten.__class__.mro",
        "__builtins__.exec.x",
        "aten.mm.out;x",
        "",
        "a.b.c.d",
    ],
)
def test_an_operator_is_a_name_of_the_dispatcher(operator: str) -> None:
    builder = ProgramBuilder()
    x = builder.input(PLAIN)
    y = builder.extern(operator, x, type=PLAIN)
    with pytest.raises(DiagnosticError) as caught:
        PythonEmitter().emit(builder.build(y))
    assert caught.value.diagnostics[0].code is Code.UNSUPPORTED_FEATURE


def test_an_operator_that_is_not_registered_is_a_diagnostic() -> None:
    builder = ProgramBuilder()
    x = builder.input(PLAIN)
    y = builder.extern("aten.no_such.default", x, type=PLAIN)
    with pytest.raises(DiagnosticError, match=r"no operator aten\.no_such") as caught:
        run_emitted(builder.build(y), [torch.ones(2, 3)], {})
    assert caught.value.diagnostics[0].code is Code.UNSUPPORTED_FEATURE
    with pytest.raises(DiagnosticError, match=r"no operator aten\.no_such") as caught:
        compile_program(builder.build(y))
    assert caught.value.diagnostics[0].path == ("lines", 0)


@pytest.mark.parametrize("name", ["__and__", "__lshift__", "__ior__"])
def test_operators_with_underscores_are_known(name: str) -> None:
    builder = ProgramBuilder()
    kind = tensor("i64", (2,))
    x = builder.input(kind, mutated=True)
    y = builder.extern(f"aten.{name}.Scalar", x, 1, type=kind)
    wanted = getattr(torch.ops.aten, name).Scalar(torch.tensor([2, 3]), 1)
    (out,) = run_emitted(builder.build(y), [torch.tensor([2, 3])], {})
    assert torch.equal(out, wanted)  # type: ignore[arg-type]


def test_what_is_missing_is_named_all_at_once() -> None:
    builder = ProgramBuilder()
    x = builder.input(PLAIN)
    builder.extern("aten.relu.default", x, type=PLAIN, device=Device("xpu"), stream=1)

    def inside(block: BlockBuilder, _: NamedValue) -> list[Operand]:
        block.allocate(evolve(PLAIN, space="comm"))
        return []

    builder.subgraph_call("block", [x], inside, results=[])
    builder.allocate(evolve(PLAIN, layout=VendorLayout("acme.tiled")))
    builder.allocate(evolve(PLAIN, pinned=True, alignment=128))
    with pytest.raises(DiagnosticError) as caught:
        PythonEmitter().emit(builder.build())
    found = caught.value.diagnostics
    assert {d.code for d in found} == {Code.UNSUPPORTED_FEATURE}
    assert [d.path for d in found] == [
        ("lines", 0),
        ("lines", 1, "body", "lines", 0),
        ("lines", 2),
        ("lines", 3),
    ]


def nested(depth: int) -> Program:
    def fill(remaining: int) -> object:
        def body(block: BlockBuilder, x: NamedValue) -> list[Operand]:
            if not remaining:
                return [block.extern("aten.neg.default", x, type=PLAIN)]
            inner = fill(remaining - 1)
            return list(
                block.while_loop([x], lambda b, _: [0], inner)  # type: ignore[arg-type]
            )

        return body

    builder = ProgramBuilder()
    x = builder.input(PLAIN)
    return builder.build(*builder.while_loop([x], lambda b, _: [0], fill(depth - 1)))  # type: ignore[arg-type]


def test_blocks_nest_as_deep_as_python_allows() -> None:
    assert_runs_as_interpreted(nested(16))
    with pytest.raises(DiagnosticError) as caught:
        PythonEmitter().emit(nested(17))
    assert caught.value.diagnostics[0].code is Code.UNSUPPORTED_FEATURE
    with pytest.raises(DiagnosticError):
        PythonEmitter().emit(nested(150))


CUDA = """\
wrapperir 1

kernel_definition @add triton(p: read_write f32*, n: i32, XBLOCK: constexpr) {
  grid = (ceildiv(n, XBLOCK), 1, 1)
  config XBLOCK = 16, num_warps = 4
  entry = triton_
  source {
    | @triton.jit
    | def triton_(p, n, XBLOCK: tl.constexpr):
    |     i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    |     tl.store(p + i, tl.load(p + i, mask=i < n) * 2, mask=i < n)
  }
}

program @main(%x: f32[8]@cuda:1) {
  %a = allocate f32[8]@cuda:1
  %b = allocate f32[8]@cuda:0
  %c = allocate f32[8]@cuda:1 {align = 1024}
  %w = allocate u8[8]@cuda:1 workspace(zero_per_program)
  %h = allocate f32[8] {pinned}
  extern_kernel aten.copy_.default(%a, %x) writes(%a) @cuda:1
  extern_kernel aten.copy_.default(%b, %x) writes(%b) @cuda:0
  kernel_call @add(%a, 8) @cuda:1
  kernel_call @add(%b, 8) @cuda:0
  return %a, %b, %c, %h
}
"""


def test_cuda_lines_run_on_their_devices() -> None:
    text = str(
        PythonEmitter(trusts_inputs=True).emit(parse_program(CUDA)).files["program.py"]
    )
    assert text.endswith("""\
    (x,) = args
    args.clear()
    with torch.cuda._DeviceGuard(1):
        torch.cuda.set_device(1)
        a = empty_strided_cuda((8,), (1,), float32)
        b = empty_strided((8,), (1,), dtype=float32, device=device_0)
        c = empty_aligned((8,), (1,), float32, 8, device_1, 1024)
        h = empty_strided_cpu_pinned((8,), (1,), float32)
        aten_copy__default(a, x)
        aten_copy__default(b, x)
        add(1, 1, 1, a, 8)
        with torch.cuda._DeviceGuard(0):
            add(1, 1, 1, b, 8)
        return (a, b, c, h)
""")
    assert "\nw = empty_strided((8,), (1,), dtype=uint8, device=device_1).zero_()\n" in text


def test_constants_are_checked() -> None:
    builder = ProgramBuilder()
    weight = builder.constant(PLAIN, "fc.weight")
    program = builder.build(builder.extern("aten.neg.default", weight, type=PLAIN))
    for given_constants, code in (
        ({}, Code.MISSING_CONSTANT),
        ({"fc.weight": torch.ones(3, 2)}, Code.CONSTANT_MISMATCH),
        ({"fc.weight": torch.ones(3, 2).T}, Code.CONSTANT_MISMATCH),
        ({"fc.weight": torch.ones(2, 3, dtype=torch.float64)}, Code.CONSTANT_MISMATCH),
        ({"fc.weight": torch.ones(2, 3, device="meta")}, Code.CONSTANT_MISMATCH),
    ):
        with pytest.raises(DiagnosticError) as caught:
            compile_program(program, constants=given_constants)
        assert [d.code for d in caught.value.diagnostics] == [code]
        message = caught.value.diagnostics[0].message
        assert code is Code.MISSING_CONSTANT or "size [2, 3] and stride [3, 1]" in message
    emitter = PythonEmitter()
    with pytest.raises(DiagnosticError) as caught:
        emitter.load(emitter.emit(program), {})
    assert caught.value.diagnostics[0].code is Code.MISSING_CONSTANT
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    (out,) = compile_program(program, constants={"fc.weight": parameter})([])
    assert isinstance(out, torch.Tensor)
    assert not out.requires_grad


def test_a_program_on_a_device_of_a_third_party_allocates_there() -> None:
    builder = ProgramBuilder()
    x = builder.allocate(tensor("f32", (2,), device=Device("meta")))
    (out,) = run_emitted(builder.build(x), [], {})
    assert isinstance(out, torch.Tensor)
    assert out.device.type == "meta"
