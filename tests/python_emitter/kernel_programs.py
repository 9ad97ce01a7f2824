"""Programs that call one kernel on a buffer."""

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
