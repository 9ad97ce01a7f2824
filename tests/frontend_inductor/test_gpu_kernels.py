"""Kernels that Inductor writes only for GPUs are captured, and compile to machine code."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor import config
from torch.utils import _pytree as pytree

from tests.frontend_inductor import gpu_cases
from tests.frontend_inductor.captured import Capture, lines_of
from tests.frontend_inductor.gpu_cases import CASES
from wrapperir.diagnostics import DiagnosticError
from wrapperir.frontend.inductor import triton_grid
from wrapperir.frontend.inductor.kernel_lines import lower_definition
from wrapperir.interp import interpret
from wrapperir.ir import (
    BufferParameter,
    KernelCallLine,
    KernelDefinitionLine,
    Program,
    ScalarParameter,
    Symbol,
    symbols_in,
)
from wrapperir.kernels import Target, compile_triton
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_fx.emitter import FxEmitter
from wrapperir_python.emitter import PythonEmitter

CLOSE: dict[str, Any] = {"rtol": 2e-2, "atol": 5e-2}


def kernels_of(program: Program) -> list[KernelDefinitionLine]:
    return [k for k in program.definitions if isinstance(k, KernelDefinitionLine)]


SWEPT = {
    *("mm, dynamic", "mm, of a view", "mm, decomposed", "mm of integers", "mm plus mm"),
    *("addmm", "bmm", "bmm, dynamic batch", "baddbmm", "tma mm, stores"),
    *("convolution", "convolution, 3-D", "linear, training"),
    *("attention", "attention, dynamic", "attention, bias", "attention, mask"),
    "attention, lengths",
    *("attention, decoding, dynamic batch", "attention, mask, training"),
    *(
        "split scan, rows",
        "split scan, 64 bits",
        "split scan, small",
        "split scan, dynamic",
    ),
    *("mix-order reduction, half precision", "mix-order reduction, small"),
    *("split scan, small", "mix-order reduction, dynamic", "combo kernels"),
}
"""Cases whose kernels another case has too, for the larger part."""

NOT_FUSED = pytest.mark.skipif(
    torch.__version__ < "2.12",
    reason="a fusion that 2.11 drops because its kernel does not compile",
)
COMPILED = [
    pytest.param(
        name,
        marks=(
            *((NOT_FUSED,) if name == "tma mm, stores" else ()),
            *((pytest.mark.sweep,) if name in SWEPT else ()),
        ),
    )
    for name in CASES
]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_captured_kernels_compile_for_a_gpu(name: str, captured: Capture) -> None:
    programs = captured(name)
    assert len(programs) == (2 if CASES[name].is_training else 1)
    for program in programs:
        assert verify(program) == ()
        assert parse_program(format_program(program)) == program
        for emitter in (PythonEmitter(), FxEmitter()):
            assert emitter.emit(program).files
        files = CppEmitter().emit(program).files
        facts = {
            path: json.loads(text)
            for path, text in files.items()
            if path.endswith(".triton.json")
        }
        assert len(facts) == len(kernels_of(program))
        by_symbol = {Path(path).name.split(".")[0]: value for path, value in facts.items()}
        sources = {value["source"]: str(files[value["source"]]) for value in facts.values()}
        _, built = compile_triton(by_symbol, sources, [Target("sm_90")], "kernels/")
        assert len(built) >= len(facts)
        assert all(binary[:4] == b"\x7fELF" for binary in built.values())


# Triton's interpreter takes no constants as sizes of descriptors, kernels are not timed for
# hints, and some products are of GPUs alone.
NOT_INTERPRETED = ("grouped mm", "mm, decomposed", "mm, hints", "tma mm", "tma mm, stores")
INTERPRETED = [
    *(name for name in CASES if "mm" in name and name not in NOT_INTERPRETED),
    "convolution",
    "convolution, training",
    "attention",
    pytest.param("attention, bias", marks=pytest.mark.sweep),
    "attention, mask",
    pytest.param("attention, decoding", marks=pytest.mark.sweep),
    pytest.param("attention, training", marks=pytest.mark.sweep),
    "split scan, small",
    "combo kernels",
    "index",
    "precise casts",
    "foreach",
    "user kernel, epilogue",
    "block pointers",
    "tensor descriptors",
    "multi-kernel",
    "mix-order reduction, small",
    "mix-order reduction, small, half precision",
]


@pytest.mark.parametrize("name", INTERPRETED)
def test_captured_programs_compute_what_eager_does(
    name: str, captured: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    forward, *backward = [
        parse_program(format_program(program).replace("@cuda:0", "@cpu"))
        for program in captured(name)
    ]
    monkeypatch.setattr(gpu_cases, "DEVICE", "cpu")
    torch.manual_seed(0)
    inputs = case.example()
    expected = pytree.tree_leaves((case.reference or case.function)(*inputs))
    given = [x.detach() for x in inputs]
    scalars = [inputs[0].shape[0]] * (len(forward.inputs) - len(inputs))
    outputs = interpret(forward, [*scalars, *given], {})
    results, saved = outputs[: len(expected)], outputs[len(expected) :]
    torch.testing.assert_close(results, [x.detach() for x in expected], **CLOSE)
    for program in backward:
        tangent = torch.ones_like(expected[0])
        gradients = interpret(program, [*saved, tangent], {})
        wanted = torch.autograd.grad(expected[0].sum(), inputs)
        torch.testing.assert_close(gradients, list(wanted), **CLOSE)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mm, prologue", "triton_tem_fused__to_copy_add_mm_0"),
        ("tma mm", "make_tensor_descriptor("),
        ("grouped mm", "triton_tem_"),
        ("convolution", "triton_tem_"),
        ("attention, decoding", "triton_tem_"),
        ("split scan", "exclusive_scan_decoupled_lookback"),
        ("cooperative reduction", "x_grid_barrier"),
        ("combo kernels", "num_xblocks_1"),
        ("block pointers", "tl.make_block_ptr("),
        ("tensor descriptors", "make_tensor_descriptor("),
        ("mix-order reduction", "RSPLIT_SIZE"),
    ],
)
def test_kernels_are_of_the_form_that_a_case_is_about(
    name: str, text: str, captured: Capture
) -> None:
    kernels = [kernel for program in captured(name) for kernel in kernels_of(program)]
    assert any(text in kernel.source for kernel in kernels)


def test_a_constant_that_a_split_scan_defines_is_not_in_its_configs(
    captured: Capture,
) -> None:
    (program,) = captured("split scan")
    (kernel,) = kernels_of(program)
    assert "XBLOCK: tl.constexpr = 1" in kernel.source
    assert all("XBLOCK" not in dict(c.values) for c in kernel.configs)
    assert all("R0_BLOCK" in dict(c.values) for c in kernel.configs)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cooperative reduction", {"launch_cooperative_grid": True}),
        ("index", {"debug": True, "sanitize_overflow": False}),
        ("precise casts", {"enable_fp_fusion": False}),
        ("combo kernels", {}),
    ],
)
def test_launch_options_that_are_not_triton_s_defaults(
    name: str, options: dict[str, Any], captured: Capture
) -> None:
    (program,) = captured(name)
    (kernel, *_) = kernels_of(program)
    known = {"num_warps", "num_stages", *(p.name for p in kernel.parameters)}
    for choice in kernel.configs:
        assert {k: v for k, v in choice.values if k not in known} == options


def test_a_grid_with_a_size_that_the_kernel_is_not_given(captured: Capture) -> None:
    (program,) = captured("user kernel, grid of another size")
    (kernel,) = kernels_of(program)
    added = kernel.parameters[-1]
    assert isinstance(added, ScalarParameter)
    assert kernel.grid is not None
    assert kernel.grid[0] == Symbol(added.name)
    assert f", {added.name}):" in kernel.source
    (call,) = lines_of(program, KernelCallLine)
    (size,) = symbols_in(call.arguments[-1])  # type: ignore[arg-type]
    assert size in {line.symbol for line in program.symbols}


def test_results_of_attention_that_are_inputs_of_the_template(captured: Capture) -> None:
    (program,) = captured("attention")
    kernel = kernels_of(program)[-1]
    writes = {
        p.name
        for p in kernel.parameters
        if isinstance(p, BufferParameter) and p.access.writes
    }
    assert {"arg_LSE", "out_ptr0"} <= writes
    assert "arg_Q" not in writes


def test_a_template_whose_grid_is_a_python_function_is_refused() -> None:
    with pytest.raises(DiagnosticError, match="WIR654: the launch grid of mm") as caught:
        triton_grid.template_meta("mm", ["buf0", "*my.grid(s0, meta0)"], {"x": "*fp32"})
    (diagnostic,) = caught.value.diagnostics
    assert "SymbolicGridFn" in (diagnostic.hint or "")


def test_a_kernel_of_another_language_is_refused() -> None:
    scope: Any = SimpleNamespace(session=SimpleNamespace(definitions={}, early={}))
    body = "async_compile.cutlass(r'''int x;''', 'so')"
    line = SimpleNamespace(kernel_name="k", kernel_body=body, cpp_definition=None)
    with pytest.raises(DiagnosticError, match="WIR654: kernel k is neither") as caught:
        lower_definition(scope, line, SimpleNamespace())  # type: ignore[arg-type]
    (diagnostic,) = caught.value.diagnostics
    assert "max_autotune_gemm_backends" in (diagnostic.hint or "")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.parametrize("name", CASES)
def test_results_match_eager(name: str, emitter: str) -> None:
    case = CASES[name]
    torch.manual_seed(0)
    torch._dynamo.reset()
    inputs = case.example()
    compiled: Any = torch.compile(
        case.function, backend="wrapperir", options={"emitter": emitter}
    )
    expected = pytree.tree_leaves(case.function(*inputs))
    with config.patch(case.known_settings()):
        outputs = pytree.tree_leaves(compiled(*inputs))
        torch.testing.assert_close(outputs, expected, **CLOSE)
        if case.is_training:
            gradients = torch.autograd.grad(outputs[0].sum(), inputs)
            wanted = torch.autograd.grad(expected[0].sum(), inputs)
            torch.testing.assert_close(gradients, wanted, **CLOSE)
