"""The kernels of generated programs, each in Triton and in C++, and one with descriptors.

The sources are fixed, so that each is compiled once.  Every kernel but the last works on
``xnumel`` elements of dense f32 buffers.
"""

from collections.abc import Mapping
from enum import Enum

from wrapperir import ir as wir


class KernelKind(Enum):
    """A kernel of this library, by its computation."""

    ADD = "add"
    """``out = left + right``"""
    ADD_REVERSED = "add_reversed"
    """The same sums, computed from the last element to the first."""
    SUBTRACT = "subtract"
    """``out = left - right``: the order of the arguments shows"""
    NEGATE = "negate"
    """``out = -in``"""
    RELU_INPLACE = "relu_inplace"
    """``inout = max(inout, 0)``"""
    ROW_SUM = "row_sum"
    """``out[i] = in[i, 0] + … + in[i, rnumel - 1]``, left to right"""
    SCRATCH_WRITE = "scratch_write"
    """``ws = in``, then ``out = ws``: the workspace begins with anything"""
    SCRATCH_ADD = "scratch_add"
    """``out = in + ws``, then ``ws = 0``: the workspace begins, and is left, zero"""


def _buffer(name: str, access: wir.Access) -> wir.BufferParameter:
    return wir.BufferParameter(name, wir.DType.F32, access)


_LEFT, _RIGHT = _buffer("in_ptr0", wir.Access.READ), _buffer("in_ptr1", wir.Access.READ)
_OUT = _buffer("out_ptr0", wir.Access.WRITE)

_BUFFERS: Mapping[KernelKind, tuple[wir.BufferParameter, ...]] = {
    KernelKind.ADD: (_LEFT, _RIGHT, _OUT),
    KernelKind.ADD_REVERSED: (_LEFT, _RIGHT, _OUT),
    KernelKind.SUBTRACT: (_LEFT, _RIGHT, _OUT),
    KernelKind.NEGATE: (_LEFT, _OUT),
    KernelKind.RELU_INPLACE: (_buffer("in_out_ptr0", wir.Access.READ_WRITE),),
    KernelKind.ROW_SUM: (_LEFT, _OUT),
    KernelKind.SCRATCH_WRITE: (_LEFT, _buffer("ws_ptr", wir.Access.WRITE), _OUT),
    KernelKind.SCRATCH_ADD: (_LEFT, _buffer("ws_ptr", wir.Access.READ_WRITE), _OUT),
}

_TRITON_BODIES: Mapping[KernelKind, str] = {
    KernelKind.ADD: """\
    left = tl.load(in_ptr0 + x, mask)
    right = tl.load(in_ptr1 + x, mask)
    tl.store(out_ptr0 + x, left + right, mask)
""",
    KernelKind.ADD_REVERSED: """\
    back = xnumel - 1 - x
    left = tl.load(in_ptr0 + back, mask)
    right = tl.load(in_ptr1 + back, mask)
    tl.store(out_ptr0 + back, left + right, mask)
""",
    KernelKind.SUBTRACT: """\
    left = tl.load(in_ptr0 + x, mask)
    right = tl.load(in_ptr1 + x, mask)
    tl.store(out_ptr0 + x, left - right, mask)
""",
    KernelKind.NEGATE: """\
    tl.store(out_ptr0 + x, -tl.load(in_ptr0 + x, mask), mask)
""",
    KernelKind.RELU_INPLACE: """\
    value = tl.load(in_out_ptr0 + x, mask)
    tl.store(in_out_ptr0 + x, tl.where(value > 0, value, 0.0), mask)
""",
    KernelKind.ROW_SUM: """\
    total = tl.zeros([XBLOCK], tl.float32)
    for r in range(0, rnumel):
        total += tl.load(in_ptr0 + x * rnumel + r, mask, other=0.0)
    tl.store(out_ptr0 + x, total, mask)
""",
    KernelKind.SCRATCH_WRITE: """\
    value = tl.load(in_ptr0 + x, mask)
    tl.store(ws_ptr + x, value, mask)
    tl.store(out_ptr0 + x, tl.load(ws_ptr + x, mask), mask)
""",
    KernelKind.SCRATCH_ADD: """\
    value = tl.load(in_ptr0 + x, mask) + tl.load(ws_ptr + x, mask)
    tl.store(out_ptr0 + x, value, mask)
    tl.store(ws_ptr + x, tl.zeros([XBLOCK], tl.float32), mask)
""",
}

_CPP_BODIES: Mapping[KernelKind, str] = {
    KernelKind.ADD: """\
    for (int64_t x = 0; x < xnumel; ++x) out_ptr0[x] = in_ptr0[x] + in_ptr1[x];
""",
    KernelKind.ADD_REVERSED: """\
    for (int64_t x = xnumel - 1; x >= 0; --x) out_ptr0[x] = in_ptr0[x] + in_ptr1[x];
""",
    KernelKind.SUBTRACT: """\
    for (int64_t x = 0; x < xnumel; ++x) out_ptr0[x] = in_ptr0[x] - in_ptr1[x];
""",
    KernelKind.NEGATE: """\
    for (int64_t x = 0; x < xnumel; ++x) out_ptr0[x] = -in_ptr0[x];
""",
    KernelKind.RELU_INPLACE: """\
    for (int64_t x = 0; x < xnumel; ++x)
        in_out_ptr0[x] = in_out_ptr0[x] > 0 ? in_out_ptr0[x] : 0.0f;
""",
    KernelKind.ROW_SUM: """\
    for (int64_t x = 0; x < xnumel; ++x) {
        float total = 0.0f;
        for (int64_t r = 0; r < rnumel; ++r) total += in_ptr0[x * rnumel + r];
        out_ptr0[x] = total;
    }
""",
    KernelKind.SCRATCH_WRITE: """\
    for (int64_t x = 0; x < xnumel; ++x) {
        ws_ptr[x] = in_ptr0[x];
        out_ptr0[x] = ws_ptr[x];
    }
""",
    KernelKind.SCRATCH_ADD: """\
    for (int64_t x = 0; x < xnumel; ++x) {
        out_ptr0[x] = in_ptr0[x] + ws_ptr[x];
        ws_ptr[x] = 0.0f;
    }
""",
}


def _scalars(kind: KernelKind) -> tuple[str, ...]:
    return ("xnumel", "rnumel") if kind is KernelKind.ROW_SUM else ("xnumel",)


def triton_kernel(kind: KernelKind) -> wir.KernelDefinitionLine:
    """Return the kernel in Triton, with two configs of equal results."""
    buffers, scalars = _BUFFERS[kind], _scalars(kind)
    names = [*(buffer.name for buffer in buffers), *scalars]
    source = (
        "import triton\n"
        "import triton.language as tl\n"
        "\n"
        "\n"
        "@triton.jit\n"
        f"def {kind.value}({', '.join(names)}, XBLOCK: tl.constexpr):\n"
        "    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)\n"
        "    mask = x < xnumel\n"
        f"{_TRITON_BODIES[kind]}"
    )
    parameters: tuple[wir.Parameter, ...] = (
        *buffers,
        *(wir.ScalarParameter(name, wir.DType.I32) for name in scalars),
        wir.ConstexprParameter("XBLOCK"),
    )
    return wir.KernelDefinitionLine(
        name=f"triton_{kind.value}",
        language=wir.Language.TRITON,
        parameters=parameters,
        grid=(wir.ceildiv(wir.Symbol("xnumel"), wir.Symbol("XBLOCK")), 1, 1),
        configs=(
            wir.KernelConfig((("XBLOCK", 16), ("num_warps", 1))),
            wir.KernelConfig((("XBLOCK", 8), ("num_warps", 1), ("num_stages", 2))),
        ),
        entry=kind.value,
        metadata=(("wrapperir.kind", kind.value),),
        source=source,
    )


def cpp_kernel(kind: KernelKind) -> wir.KernelDefinitionLine:
    """Return the kernel in C++: one function with C linkage."""
    buffers, scalars = _BUFFERS[kind], _scalars(kind)
    arguments = [
        *(f"{'' if b.access.writes else 'const '}float* {b.name}" for b in buffers),
        *(f"const int64_t {name}" for name in scalars),
    ]
    source = (
        "#include <cstdint>\n"
        "\n"
        f'extern "C" void {kind.value}({", ".join(arguments)}) {{\n'
        f"{_CPP_BODIES[kind]}"
        "}\n"
    )
    return wir.KernelDefinitionLine(
        name=f"cpp_{kind.value}",
        language=wir.Language.CPP,
        parameters=(
            *buffers,
            *(wir.ScalarParameter(name, wir.DType.I64) for name in scalars),
        ),
        entry=kind.value,
        metadata=(("wrapperir.kind", kind.value),),
        source=source,
    )


def library_kernel(kind: KernelKind, language: wir.Language) -> wir.KernelDefinitionLine:
    """Return a kernel of the library in a language.

    Raises:
        ValueError: the library has none in ``language``.
    """
    if language is wir.Language.TRITON:
        return triton_kernel(kind)
    if language is wir.Language.CPP:
        return cpp_kernel(kind)
    raise ValueError(f"no kernels in {language.value}")


BLOCK = (4, 4)
"""The block of all descriptors of :func:`descriptor_kernel`."""

_DESCRIPTOR_SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def add_blocks(left, right, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    for column in range(0, columns, COLUMNS):
        total = left.load([row, column]) + right.load([row, column])
        out.store([row, column], total)
"""


def descriptor_kernel() -> wir.KernelDefinitionLine:
    """Return ``out = left + right`` for f32 matrices, a block of rows in each program."""
    rows, columns = BLOCK
    return wir.KernelDefinitionLine(
        name="triton_add_blocks",
        language=wir.Language.TRITON,
        parameters=(
            wir.DescriptorParameter("left", wir.DType.F32, BLOCK, wir.Access.READ),
            wir.DescriptorParameter("right", wir.DType.F32, BLOCK, wir.Access.READ),
            wir.DescriptorParameter("out", wir.DType.F32, BLOCK, wir.Access.WRITE),
            wir.ScalarParameter("rows", wir.DType.I32),
            wir.ScalarParameter("columns", wir.DType.I32),
            wir.ConstexprParameter("ROWS"),
            wir.ConstexprParameter("COLUMNS"),
        ),
        grid=(wir.ceildiv(wir.Symbol("rows"), wir.Symbol("ROWS")), 1, 1),
        constants=(("COLUMNS", columns),),
        configs=(wir.KernelConfig((("ROWS", rows), ("num_warps", 1))),),
        entry="add_blocks",
        metadata=(("wrapperir.kind", "add_blocks"),),
        source=_DESCRIPTOR_SOURCE,
    )
