"""A Triton kernel that takes its matrices behind tensor descriptors."""

from wrapperir.ir import (
    Access,
    ConstexprParameter,
    DescriptorParameter,
    DType,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    ScalarParameter,
    Symbol,
    ceildiv,
)

BLOCK = (4, 4)
"""The block of all its descriptors."""

_SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def add_blocks(left, right, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    for column in range(0, columns, COLUMNS):
        total = left.load([row, column]) + right.load([row, column])
        out.store([row, column], total)
"""


def descriptor_kernel() -> KernelDefinitionLine:
    """Return ``out = left + right`` for f32 matrices, a block of rows in each program."""
    rows, columns = BLOCK
    return KernelDefinitionLine(
        name="triton_add_blocks",
        language=Language.TRITON,
        parameters=(
            DescriptorParameter("left", DType.F32, BLOCK, Access.READ),
            DescriptorParameter("right", DType.F32, BLOCK, Access.READ),
            DescriptorParameter("out", DType.F32, BLOCK, Access.WRITE),
            ScalarParameter("rows", DType.I32),
            ScalarParameter("columns", DType.I32),
            ConstexprParameter("ROWS"),
            ConstexprParameter("COLUMNS"),
        ),
        grid=(ceildiv(Symbol("rows"), Symbol("ROWS")), 1, 1),
        constants=(("COLUMNS", columns),),
        configs=(KernelConfig((("ROWS", rows), ("num_warps", 1))),),
        entry="add_blocks",
        metadata=(("wrapperir.kind", "add_blocks"),),
        source=_SOURCE,
    )
