"""What is read off the text of kernels: C++ parameters, names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch._inductor.codegen.cpp_utils import DTYPE_TO_CPP

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.inductor.kernel_lines import PREFIX, kernel_name, lower_cpp_kernel
from wrapperir.frontend.inductor.values import lower_dtype
from wrapperir.ir import Access, BufferParameter, ScalarParameter, is_identifier

SOURCE = """\
#include "/cache_of_someone/ab/cabc0123.h"
extern "C"  void kernel(float* in_out_ptr0,
                       const int64_t* in_ptr0,
                       float* out_ptr0,
                       float* out_ptr1,
                       const int64_t ks0)
{
    atomic_add(&out_ptr0[in_ptr0[0]], in_out_ptr0[0]);
    out_ptr1[0] = ks0;
}
"""


def _declaration(source: str) -> str:
    start = source.index('extern "C"')
    return source[start : source.index(")", start) + 1] + ";\n"


def test_accesses_follow_from_const_and_names_and_atomics() -> None:
    kernel = lower_cpp_kernel("k", SOURCE, _declaration(SOURCE))
    buffers = [p for p in kernel.parameters if isinstance(p, BufferParameter)]
    assert [p.access for p in buffers] == [
        Access.READ_WRITE,
        Access.READ,
        Access.READ_WRITE,
        Access.WRITE,
    ]
    assert [p.name for p in kernel.parameters if isinstance(p, ScalarParameter)] == ["ks0"]


def test_no_path_of_this_machine_is_kept() -> None:
    kernel = lower_cpp_kernel("k", SOURCE, _declaration(SOURCE))
    assert "cache_of_someone" not in kernel.source
    assert kernel.source.startswith(PREFIX)
    assert kernel.entry == "kernel"


@given(st.lists(st.tuples(st.sampled_from(sorted(DTYPE_TO_CPP, key=str)), st.booleans())))
def test_every_element_type_is_read_back(parameters: list[tuple[object, bool]]) -> None:
    declared = ", ".join(
        f"{'const ' if const else ''}{DTYPE_TO_CPP[dtype]}* p{i}"  # type: ignore[index]
        for i, (dtype, const) in enumerate(parameters)
    )
    kernel = lower_cpp_kernel("k", "", f'extern "C"  void  kernel({declared});')
    assert [
        (p.name, p.dtype, p.access)
        for p in kernel.parameters
        if isinstance(p, BufferParameter)
    ] == [
        (f"p{i}", lower_dtype(dtype), Access.READ if const else Access.WRITE)  # type: ignore[arg-type]
        for i, (dtype, const) in enumerate(parameters)
    ]


@pytest.mark.parametrize(
    "declaration",
    ["", "void other(float* x);", 'extern "C" void kernel(std::vector<int> x);'],
)
def test_an_unknown_declaration_is_refused(declaration: str) -> None:
    with pytest.raises(DiagnosticError) as error:
        lower_cpp_kernel("k", SOURCE, declaration)
    assert error.value.diagnostics[0].code is Code.INDUCTOR_KERNEL


@given(st.text("abc_", min_size=1, max_size=400), st.integers(0, 10**6))
def test_long_names_are_cut_but_keep_their_number(stem: str, number: int) -> None:
    name = kernel_name(f"{stem}_{number}")
    assert is_identifier(name)
    assert len(name) <= 201
    assert name.endswith(f"_{number}")
