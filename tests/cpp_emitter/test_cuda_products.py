"""Matrix products on a made-up GPU: the calls of cuBLAS that PyTorch's operators make."""

from typing import Any

import pytest
import torch

from tests.cpp_emitter.gpu_requests import CURRENT, FakeGpu
from tests.cpp_emitter.running import parsed
from wrapperir.ir import DType, Program
from wrapperir_cpp.blas import is_available

pytestmark = pytest.mark.skipif(
    not is_available(DType.F32), reason="this PyTorch multiplies matrices in another way"
)


def product(
    operator: str, out: str, *operands: str, dtype: str = "f32", rest: str = ""
) -> Program:
    """Return a program that makes one product; an operand is its sizes and strides."""
    names = [f"v{index}" for index in range(len(operands))]
    inputs = ", ".join(f"%{n}: {dtype}[{t}]" for n, t in zip(names, operands, strict=True))
    given = ", ".join(f"%{name}" for name in names)
    return parsed(f"""
        program @main({inputs}) {{
          %r = allocate {dtype}[{out}]
          extern_kernel aten.{operator}.out({given}{rest}, out = %r) writes(%r)
          return %r
        }}
        """)


def calls(fake_gpu: FakeGpu, program: Program, **facts: Any) -> list[list[str]]:
    """Return what cuBLAS is asked to do in each call of a program."""
    kinds = ("handle", "gemm", "batch", "choose", "biased", "copy", "wrong")
    logs = fake_gpu.logs(program, **facts)
    return [[line for line in log if line.startswith(kinds)] for log in logs]


PLAIN = "times 1 plus 0 mode 0"

GEMMS = {
    "rows": ("mm", ("2, 4", "2, 3", "3, 4"), f"gemm f32 NN 4x2x3 by 4 3 4 {PLAIN}"),
    "columns": (
        "mm",
        ("2, 4; stride 1, 2", "2, 3; stride 1, 2", "3, 4; stride 1, 3"),
        f"gemm f32 NN 2x4x3 by 2 3 2 {PLAIN}",
    ),
    "right transposed": (
        "mm",
        ("2, 4", "2, 3", "3, 4; stride 1, 3"),
        f"gemm f32 TN 4x2x3 by 3 3 4 {PLAIN}",
    ),
    "left transposed": (
        "mm",
        ("2, 4", "2, 3; stride 1, 2", "3, 4"),
        f"gemm f32 NT 4x2x3 by 4 2 4 {PLAIN}",
    ),
    "wide rows": (
        "mm",
        ("2, 4", "2, 3; stride 7, 1", "3, 4; stride 9, 1"),
        f"gemm f32 NN 4x2x3 by 9 7 4 {PLAIN}",
    ),
    "one row": (
        "mm",
        ("1, 4", "1, 3; stride 9, 1", "3, 4"),
        f"gemm f32 NN 4x1x3 by 4 3 4 {PLAIN}",
    ),
    "one column": ("mm", ("2, 1", "2, 3", "3, 1"), f"gemm f32 NN 1x2x3 by 1 3 1 {PLAIN}"),
    "outer": ("mm", ("2, 4", "2, 1", "1, 4"), f"gemm f32 NN 4x2x1 by 4 1 4 {PLAIN}"),
    "batch": (
        "bmm",
        ("5, 2, 4", "5, 2, 3", "5, 3, 4"),
        f"batch f32 NN 4x2x3 by 4 3 4 {PLAIN} batches 5 by 12 6 8",
    ),
    "batch transposed": (
        "bmm",
        ("5, 2, 4", "5, 2, 3", "5, 3, 4; stride 12, 1, 3"),
        f"batch f32 TN 4x2x3 by 3 3 4 {PLAIN} batches 5 by 12 6 8",
    ),
    "batch of columns": (
        "bmm",
        ("5, 2, 4; stride 8, 1, 2", "5, 2, 3", "5, 3, 4"),
        f"batch f32 TT 2x4x3 by 3 4 2 {PLAIN} batches 5 by 6 12 8",
    ),
    "broadcast batch": (
        "bmm",
        ("5, 2, 4", "5, 2, 3; stride 0, 3, 1", "5, 3, 4"),
        f"batch f32 NN 4x2x3 by 4 3 4 {PLAIN} batches 5 by 12 0 8",
    ),
    "batch of one": (
        "bmm",
        ("1, 2, 4", "1, 2, 3", "1, 3, 4"),
        f"gemm f32 NN 4x2x3 by 4 3 4 {PLAIN}",
    ),
}


@pytest.mark.parametrize("name", GEMMS)
def test_layouts_become_arguments(name: str, fake_gpu: FakeGpu) -> None:
    operator, (out, *operands), wanted = GEMMS[name]
    first, second = calls(fake_gpu, product(operator, out, *operands))
    assert first == second == ["handle for current", wanted]


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16"])
def test_other_element_types(dtype: str, fake_gpu: FakeGpu) -> None:
    rounded = dtype != "f64"
    matrices = product("mm", "2, 4", "2, 3", "3, 4", dtype=dtype)
    first, _ = calls(fake_gpu, matrices, is_rounded=rounded)
    assert first[1:] == [f"gemm {dtype} NN 4x2x3 by 4 3 4 {PLAIN}"]
    batch = product("bmm", "5, 2, 4", "5, 2, 3", "5, 3, 4", dtype=dtype)
    first, _ = calls(fake_gpu, batch, is_rounded=rounded)
    assert first[1:] == [f"batch {dtype} NN 4x2x3 by 4 3 4 {PLAIN} batches 5 by 12 6 8"]
    biased = product("addmm", "2, 4", "4", "2, 3", "3, 4", dtype=dtype)
    first, _ = calls(fake_gpu, biased, is_rounded=rounded)
    assert first[2:] == [f"biased {dtype} NN 4x2x3 by 4 3 4 times 1 on current"]
    compute, scale = (70, 1) if dtype == "f64" else (68, 0)
    assert first[1].startswith(f"choose compute {compute} scale {scale} epilogue 4 1=64 5=")


def test_an_algorithm_is_chosen_once(fake_gpu: FakeGpu) -> None:
    program = product("addmm", "2, 4", "4", "2, 3", "3, 4", rest=", alpha = 0.5")
    first, second = calls(fake_gpu, program)
    wanted = "biased f32 NN 4x2x3 by 4 3 4 times 0.5 on current"
    assert [line.split()[0] for line in first] == ["handle", "choose", "biased"]
    assert first[-1] == wanted
    assert second == ["handle for current", wanted]


ADDED = {
    "scaled": (("2, 4", "2, 4", "2, 3", "3, 4"), ", beta = 2", "times 1 plus 2"),
    "a matrix": (("2, 4", "2, 4", "2, 3", "3, 4"), "", "times 1 plus 1"),
    "a scaled row": (("1, 4", "4", "1, 3", "3, 4"), ", beta = 2", "times 1 plus 2"),
    "a matrix of one row": (("1, 4", "1, 4", "1, 3", "3, 4"), "", "times 1 plus 1"),
}


@pytest.mark.parametrize("name", ADDED)
def test_matrices_are_copied_before_the_product(name: str, fake_gpu: FakeGpu) -> None:
    (out, *operands), rest, scales = ADDED[name]
    first, _ = calls(fake_gpu, product("addmm", out, *operands, rest=rest))
    assert [line.split()[0] for line in first] == ["handle", "copy", "gemm"]
    assert scales in first[-1]


def test_one_row_with_a_vector(fake_gpu: FakeGpu) -> None:
    first, _ = calls(fake_gpu, product("addmm", "1, 4", "4", "1, 3", "3, 4"))
    is_biased = torch.__version__ < "2.12"  # later releases copy the vector
    assert [line.split()[0] for line in first] == ["handle", "choose", "biased"] * is_biased


def test_a_batch_is_added(fake_gpu: FakeGpu) -> None:
    program = product(
        "baddbmm", "5, 2, 4", "5, 2, 4", "5, 2, 3", "5, 3, 4", rest=", beta = 3, alpha = 2"
    )
    first, _ = calls(fake_gpu, program)
    assert first[1].startswith("copy 160")
    assert "times 2 plus 3 mode 0 batches 5" in first[2]


def test_a_result_is_its_own_source(fake_gpu: FakeGpu) -> None:
    program = parsed("""
        program @main(%x: f32[2, 3], %y: f32[3, 4]) {
          %r = allocate f32[2, 4]
          extern_kernel aten.mm.out(%x, %y, out = %r) writes(%r)
          extern_kernel aten.addmm.out(%r, %x, %y, beta = 2, out = %r) writes(%r)
          return %r
        }
        """)
    first, _ = calls(fake_gpu, program)
    assert first == [
        "handle for current",
        f"gemm f32 NN 4x2x3 by 4 3 4 {PLAIN}",
        "gemm f32 NN 4x2x3 by 4 3 4 times 1 plus 2 mode 0",
    ]


COPIED = {
    "gaps": ("mm", ("2, 4", "2, 3; stride 8, 2", "3, 4"), ""),
    "a repeated row": ("mm", ("2, 4", "2, 3; stride 0, 1", "3, 4"), ""),
    "no terms": ("mm", ("2, 4", "2, 0", "0, 4"), ""),
    "a row as a matrix": ("addmm", ("2, 4", "1, 4", "2, 3", "3, 4"), ""),
    "a column": ("addmm", ("2, 4", "2, 1", "2, 3", "3, 4"), ""),
    "a scaled row": ("addmm", ("2, 4", "4", "2, 3", "3, 4"), ", beta = 2"),
    "one term": ("addmm", ("2, 4", "4", "2, 1", "1, 4"), ""),
    "a result in columns": ("addmm", ("2, 4; stride 1, 2", "4", "2, 3", "3, 4"), ""),
    "a broadcast batch": ("baddbmm", ("5, 2, 4", "1, 2, 4", "5, 2, 3", "5, 3, 4"), ""),
}


@pytest.mark.parametrize("name", COPIED)
def test_what_pytorch_copies_is_left_to_it(name: str, fake_gpu: FakeGpu) -> None:
    operator, (out, *operands), rest = COPIED[name]
    first, second = calls(fake_gpu, product(operator, out, *operands, rest=rest))
    assert first in ([], ["handle for current"])
    assert second == first


def test_nothing_is_done_for_no_elements(fake_gpu: FakeGpu) -> None:
    first, _ = calls(fake_gpu, product("mm", "0, 4", "0, 3", "3, 4"))
    assert first == []


UNSUPPORTED = {
    "deterministic": True,
    "tuned": True,
    "allow_fp16_accumulation": True,
    "has_algorithms": False,
}


@pytest.mark.parametrize("setting", UNSUPPORTED)
def test_pytorch_multiplies_under_other_settings(setting: str, fake_gpu: FakeGpu) -> None:
    program = product("addmm", "2, 4", "4", "2, 3", "3, 4")
    settings = {"1": {setting: UNSUPPORTED[setting]}}
    every = ((0, CURRENT), (1, CURRENT), (2, CURRENT))
    usual = product("addmm", "2, 4", "4", "2, 5", "5, 4")
    first, second, third = calls(fake_gpu, program, calls=every, settings=settings)
    if setting == "has_algorithms":  # none was asked for
        assert second == third
        settings = {"0": {setting: False}}
        first, second = calls(fake_gpu, usual, settings=settings)
        assert [line.split()[0] for line in second] == ["handle"]
        return
    assert first[-1].startswith("biased")
    assert second == []
    assert third == first[:1] + first[-1:]


def test_settings_of_precision(fake_gpu: FakeGpu) -> None:
    every = ((0, CURRENT), (1, CURRENT))
    allowed: dict[str, Any] = {"1": {"allow_tf32": True}}
    program = product("mm", "2, 4", "2, 3", "3, 4")
    first, second = calls(fake_gpu, program, calls=every, settings=allowed)
    assert (first[-1][-6:], second[-1][-6:]) == ("mode 0", "mode 3")
    program = product("addmm", "2, 4", "4", "2, 3", "3, 4")
    first, second = calls(fake_gpu, program, calls=every, settings=allowed)
    assert "choose compute 77 scale 0" in second[1]
    strict: dict[str, Any] = {"1": {"allow_fp16_reduced_precision_reduction": False}}
    facts: dict[str, Any] = {"calls": every, "settings": strict, "is_rounded": True}
    program = product("mm", "2, 4", "2, 3", "3, 4", dtype="f16")
    first, second = calls(fake_gpu, program, **facts)
    assert (first[-1][-7:], second[-1][-7:]) == (" mode 0", "mode 16")
    program = product("addmm", "2, 4", "4", "2, 3", "3, 4", dtype="f16")
    first, second = calls(fake_gpu, program, **facts)
    assert " 3=2 " in second[1]
    assert " 3=" not in first[1]


def test_the_handle_is_taken_again_after_operators(fake_gpu: FakeGpu) -> None:
    program = parsed("""
        program @main(%x: f32[4, 4]) {
          %a = allocate f32[4, 4]
          extern_kernel aten.mm.out(%x, %x, out = %a) writes(%a)
          %b = allocate f32[4, 4]
          extern_kernel aten.mm.out(%a, %x, out = %b) writes(%b)
          %c = extern_kernel aten.relu.default(%b) : f32[4, 4]
          assert_size_stride %c (4, 4) (4, 1)
          %t = reinterpret %c as f32[4, 4; stride 1, 4]
          %d = allocate f32[4, 4]
          extern_kernel aten.mm.out(%x, %t, out = %d) writes(%d)
          free %t
          return %a, %b, %c, %d
        }
        """)
    first, _ = calls(fake_gpu, program)
    kinds = ["handle", "gemm", "gemm", "handle", "gemm"]
    assert [line.split()[0] for line in first] == kinds


@pytest.mark.slow
def test_products_in_blocks(fake_gpu: FakeGpu) -> None:
    program = parsed("""
        program @main(%x: f32[4, 4]) {
          %r = graph_region @square (%x) : f32[4, 4] {
            body (%p: f32[4, 4]) {
              %t = reinterpret %p as f32[4, 4; stride 1, 4]
              %a = allocate f32[4, 4]
              extern_kernel aten.mm.out(%p, %t, out = %a) writes(%a)
              free %t
              return %a
            }
          }
          %b = allocate f32[4, 4]
          extern_kernel aten.mm.out(%r, %x, out = %b) writes(%b)
          return %b, %r
        }
        """)
    first, _ = calls(fake_gpu, program)
    assert first == [
        "handle for current",
        f"gemm f32 TN 4x4x4 by 4 4 4 {PLAIN}",
        f"gemm f32 NN 4x4x4 by 4 4 4 {PLAIN}",
    ]


def test_products_on_other_streams(fake_gpu: FakeGpu) -> None:
    program = parsed("""
        program @main(%x: f32[4, 4]) {
          %a = allocate f32[4, 4]
          extern_kernel aten.mm.out(%x, %x, out = %a) writes(%a)
          %e = record_event
          wait_event %e stream(1)
          %b = allocate f32[4, 4]
          extern_kernel aten.mm.out(%a, %x, out = %b) writes(%b) stream(1)
          %f = record_event stream(1)
          wait_event %f
          %c = allocate f32[4, 4]
          extern_kernel aten.mm.out(%b, %x, out = %c) writes(%c)
          return %a, %b, %c
        }
        """)
    first, second = calls(fake_gpu, program, calls=((0, CURRENT), (1, 0x1230)))
    handles = [line for line in first if line.startswith("handle")]
    assert handles == ["handle for current", "handle for side0", "handle for current"]
    assert second[0] == "handle for current"


def test_sizes_that_the_run_decides(fake_gpu: FakeGpu) -> None:
    program = parsed("""
        program @main(%x: f32[s0, 3], %y: f32[3, 4], %b: f32[4]) {
          symbol s0: int 2..9 = size(%x, 0)
          %r = allocate f32[s0, 4]
          extern_kernel aten.addmm.out(%b, %x, %y, out = %r) writes(%r)
          return %r
        }
        """)
    logs = calls(fake_gpu, program, calls=[(seed, CURRENT) for seed in range(12)])
    chosen = {line[-1].split()[3] for line in logs if len(line) == 3}
    assert len(chosen) == len([line for line in logs if len(line) == 3]) > 1
    assert all(line[-1].startswith("biased f32 NN 4x") for line in logs)


def test_a_failure_is_said(fake_gpu: FakeGpu) -> None:
    program = product("mm", "2, 4", "2, 3", "3, 4")
    answer = fake_gpu.ask(program, settings={"0": {"status": 13}})
    assert "cuBLAS failed: a status of the fake (13)" in answer["error"]


def test_several_threads(fake_gpu: FakeGpu) -> None:
    program = product("addmm", "2, 4", "4", "2, 3", "3, 4")
    answer = fake_gpu.ask(program, calls=(), threads=4)
    assert "error" not in answer, answer


def test_pytorch_has_the_settings() -> None:
    """Its functions of C++ that runtime/cublas.h names are there."""
    import ctypes
    import re
    from pathlib import Path

    import wrapperir_cpp

    header = Path(wrapperir_cpp.__file__).parent / "runtime" / "cublas.h"
    names = re.findall(r"\b(_ZNK?2at(?:7Context|13)\w+)\(", header.read_text())
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    assert len(names) == 7
    assert [name for name in names if not hasattr(library, name)] == []
