"""The renderer of C++ kernels."""

from typing import ClassVar

from wrapperir.ir import (
    NO_HEADERS,
    BufferParameter,
    DType,
    KernelDefinitionLine,
    Language,
)
from wrapperir.lowering.cpp.body import InstructionWriter
from wrapperir.lowering.cpp.elements import STORED
from wrapperir.lowering.cpp.lanes import LaneAnalysis
from wrapperir.lowering.cpp.lines import SourceLines
from wrapperir.lowering.cpp.nests import write_nest
from wrapperir.lowering.cpp.snippets import SNIPPETS
from wrapperir.lowering.loops import (
    Apply,
    Check,
    IndexValue,
    Instruction,
    Literal,
    Load,
    Nest,
    Reduce,
    Scan,
    Store,
)
from wrapperir.lowering.renderer import (
    KernelBuffer,
    KernelSequence,
    LoopKernel,
    Renderer,
)
from wrapperir.lowering.source_parts import needed_parts
from wrapperir.lowering.substitution import instructions

# Numbers wrap, zeros keep their sign, and functions set no errno.  Loops that the compiler
# can vectorise are, with the widest registers.
HEAD = """\
#pragma GCC push_options
#pragma GCC optimize("wrapv", "signed-zeros", "no-math-errno", "tree-loop-vectorize")
#pragma GCC target("prefer-vector-width=512")
namespace loops {"""
TAIL = """\
}  // namespace loops
#pragma GCC pop_options"""
_USING = "using loops::{};"


class CppRenderer(Renderer):
    """Writes C++ that includes no header.

    The entry takes an address for each buffer, then sizes, then the fault buffer.  Kernels
    for devices other than the CPU, which have none, throw the number of a check that fails,
    counted from 1, as an ``int``: what runs a kernel there catches it.
    """

    language: ClassVar[Language] = Language.CPP
    device_kinds: ClassVar[frozenset[str]] = frozenset({"cpu"})
    writes_sequences: ClassVar[bool] = True

    def refusal(self, nest: Nest) -> str | None:
        """Return why the nest cannot be written: a dtype that C++ kernels lack."""
        for step in instructions(nest.body):
            dtype = _dtype_of(step)
            if dtype is not None and dtype not in STORED:
                return f"C++ kernels have no {dtype.value}"
        return None

    def render_kernel(self, kernel: LoopKernel) -> KernelDefinitionLine:
        """Return the kernel's definition."""
        return _definition(kernel, _function(kernel, 'extern "C"'))

    def render_sequence(self, sequence: KernelSequence) -> KernelDefinitionLine:
        """Return a kernel with a function for each nest, which it calls in order."""
        kernels = {part.kernel.name: part.kernel for part in sequence.parts}
        texts = [_function(kernel, "static") for kernel in kernels.values()]
        lines = SourceLines()
        with lines.block(f'extern "C" {_head(sequence)}'):
            for part in sequence.parts:
                given = [f"p{n}" for n in part.buffers] + [f"s{n}" for n in part.symbols]
                given += ["fault"] if part.kernel.fault is not None else []
                lines.write(f"{part.kernel.name}({', '.join(given)});")
        return _definition(sequence, "\n".join((*texts, *lines.lines)))


def _definition(kernel: LoopKernel | KernelSequence, text: str) -> KernelDefinitionLine:
    source = "\n".join(
        (HEAD, *needed_parts(text, SNIPPETS), text, TAIL, _USING.format(kernel.name), "")
    )
    return KernelDefinitionLine(
        name=kernel.name,
        language=Language.CPP,
        parameters=(
            *map(_parameter, kernel.buffers),
            *kernel.symbols,
            *map(_parameter, [kernel.fault] if kernel.fault else []),
        ),
        entry=kernel.name,
        source=source,
        metadata=(NO_HEADERS,),
    )


def _function(kernel: LoopKernel, linkage: str) -> str:
    """Return the function of a nest."""
    pointers = {buffer.name: f"p{n}" for n, buffer in enumerate(kernel.buffers)}
    types = {buffer.name: buffer.type for buffer in kernel.buffers}
    writer = InstructionWriter(
        pointers,
        types,
        ", ".join(_parameters(kernel)),
        has_fault=kernel.fault is not None,
    )
    for n, symbol in enumerate(kernel.symbols):
        writer.indices.names[symbol.name] = f"s{n}"
        if symbol.dtype.is_integer:
            writer.indices.ranges[symbol.name] = (0, float("inf"))
    with writer.source.block(f"{linkage} {_head(kernel)}"):
        write_nest(writer, kernel.nest, LaneAnalysis(kernel.nest, types).choose())
    return "\n".join(writer.source.lines)


def _head(kernel: LoopKernel | KernelSequence) -> str:
    parameters = ", ".join(f"{type} {name}" for name, type in _parameters(kernel).items())
    return f"void {kernel.name}({parameters})"


def _parameter(buffer: KernelBuffer) -> BufferParameter:
    return BufferParameter(buffer.name, buffer.type.dtype, buffer.access)


def _parameters(kernel: LoopKernel | KernelSequence) -> dict[str, str]:
    """Return the types of the entry's parameters by their names."""
    parameters: dict[str, str] = {}
    for n, buffer in enumerate(kernel.buffers):
        const = "" if buffer.access.writes else "const "
        parameters[f"p{n}"] = f"{const}stored<{STORED[buffer.type.dtype]}>*"
    for n, symbol in enumerate(kernel.symbols):
        parameters[f"s{n}"] = STORED[symbol.dtype]
    if kernel.fault is not None:
        parameters["fault"] = "stored<i32>*"
    return parameters


def _dtype_of(step: Instruction) -> DType | None:
    if isinstance(step, Literal | IndexValue | Load | Apply | Reduce | Scan):
        return step.dtype
    assert isinstance(step, Store | Check)
    return None
