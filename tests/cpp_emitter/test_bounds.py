"""Views and places that lie in their storage only for some sizes."""

import pytest
import torch

from tests.cpp_emitter.running import parsed, refused, run_both
from wrapperir_cpp.emitter import CppEmitter

HEAD = "program @main(%x: f32[8], %y: f32[k], %n: i64) {\n  symbol k: int = size(%y, 0)\n"
CASES = {
    "a view of what has a symbolic size": (
        "%a = allocate f32[n * 2]\n"
        "extern_kernel aten.fill_.Scalar(%a, 1.0) writes(%a)\n"
        "%v = reinterpret %a as f32[8]",
        "needs 32 bytes of a storage of 16",
    ),
    "a view of an arena": (
        "%a = allocate f32[8]\n"
        "extern_kernel aten.fill_.Scalar(%a, 1.0) writes(%a)\n"
        "%v = reinterpret %a as f32[4; offset 12 - n]",
        "needs 56 bytes of a storage of 32",
    ),
    "a view before an input": (
        "%a = extern_kernel aten.neg.default(%x) : f32[8]\n"
        "%v = reinterpret %x as f32[4; offset n - 4]",
        "begins at byte -8 of a storage of 32",
    ),
    "a view of a result": (
        "%a = extern_kernel aten.neg.default(%x) : f32[8]\n"
        "%v = reinterpret %a as f32[4; offset 12 - n]",
        "needs 56 bytes of a storage of 32",
    ),
    "a reuse": (
        "%b = allocate f32[n * 2]\n%a = extern_kernel aten.neg.default(%x) : f32[8]\n"
        "extern_kernel aten.fill_.Scalar(%b, 1.0) writes(%b)\n"
        "%v = reuse %b as f32[8]",
        "needs 32 bytes of a storage of 16",
    ),
    "a place": (
        "%a = allocate_pool pool[256]\n%v = place f32[8] in %a at 512 - n * 64\n"
        "extern_kernel aten.fill_.Scalar(%v, 1.0) writes(%v)",
        "needs 416 bytes of a storage of 256",
    ),
    "a storage's own offset": (
        "%a = extern_kernel aten.neg.default(%x) : f32[8]\n"
        "%v = allocate f32[8; offset n - 4]\n"
        "extern_kernel aten.fill_.Scalar(%v, 1.0) writes(%v)",
        "begins at byte -8 of a storage of 24",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_lies_outside_is_refused(name: str) -> None:
    lines, message = CASES[name]
    text = (
        f"{HEAD}symbol n: int = value(%n)\n{lines}\n"
        "%r = extern_kernel aten.sum.default(%v) : f32[]\nfree %v\nfree %a\nreturn %r\n}\n"
    )
    run_both(text, torch.ones(8), torch.zeros(3), 6 if name == "a place" else 8)
    assert message in refused(text, torch.ones(8), torch.zeros(3), 2)


def test_what_surely_lies_inside_is_not_checked() -> None:
    text = f"""{HEAD}
      symbol n: int = value(%n)
      %a = allocate f32[n, 2]
      %v = reinterpret %a as f32[2 * n]
      free %a
      %b = allocate f32[8]
      %w = reinterpret %b as f32[4; offset 4]
      free %b
      free %w
      %p = allocate_pool pool[512]
      %c = place f32[8] in %p at 64
      free %p
      free %c
      %d = extern_kernel aten.neg.default(%v) : f32[2 * n]
      %e = reinterpret %d as f32[1]
      free %d
      free %v
      return %e
    }}
    """
    emitted = str(CppEmitter().emit(parsed(text)).files["program.cpp"])
    assert "check_inside" not in emitted


def test_what_has_no_elements_lies_anywhere() -> None:
    text = f"""{HEAD}
      %v = reinterpret %x as f32[k, 8; stride 1, 100]
      %r = extern_kernel aten.sum.dim_IntList(%v, [0]) : f32[8]
      free %v
      return %r
    }}
    """
    run_both(text, torch.ones(8), torch.zeros(0), 1)
    assert "of a storage of 32" in refused(text, torch.ones(8), torch.zeros(1), 1)
