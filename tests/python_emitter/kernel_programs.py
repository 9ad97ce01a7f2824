"""Programs that call one kernel on a buffer."""

from collections.abc import Sequence

from wrapperir.ir import (
    Access,
    BufferParameter,
    Device,
    DType,
    Expr,
    KernelDefinitionLine,
    Language,
    Parameter,
    Program,
    tensor,
)
from wrapperir.ir.builder import KernelOperand, ProgramBuilder

C_NUMBERS: Sequence[tuple[DType, str, int | float]] = (
    (DType.I64, "int64_t", -(2**62)),
    (DType.I32, "int32_t", -7),
    (DType.I16, "int16_t", 300),
    (DType.I8, "int8_t", -128),
    (DType.U64, "uint64_t", 2**63 - 1),
    (DType.U32, "uint32_t", 2**32 - 1),
    (DType.U16, "uint16_t", 65535),
    (DType.U8, "uint8_t", 255),
    (DType.BOOL, "bool", 1),
    (DType.F32, "float", 0.1),
    (DType.F64, "double", 0.1),
    (DType.F32, "float", 3),
    (DType.I32, "int32_t", 7.0),
)
"""Numbers, the dtypes that they are passed as, and the types that a kernel declares."""
BUFFER = BufferParameter("p", DType.F32, Access.READ_WRITE)


def program_of(
    definition: KernelDefinitionLine,
    *scalars: Expr,
    device: Device | None = None,
    length: int = 16,
) -> Program:
    """Call a kernel on an f32 buffer and numbers."""
    builder = ProgramBuilder()
    on = device or Device("cpu")
    x = builder.input(tensor("f32", (length,), device=on), name="x", mutated=True)
    arguments: list[KernelOperand] = [x, *scalars]
    builder.call(builder.kernel(definition), *arguments, device=on)
    return builder.build()


def cpp(
    body: str, *parameters: Parameter, entry: str = "kernel", types: str = ""
) -> KernelDefinitionLine:
    return KernelDefinitionLine(
        name="k",
        language=Language.CPP,
        parameters=(BUFFER, *parameters),
        entry=entry,
        source="#include <cstdint>\n"
        f'extern "C" void {entry}(float* p{types}) {{\n{body}\n}}',
    )
