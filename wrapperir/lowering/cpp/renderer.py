"""The renderer of C++ kernels."""

from collections.abc import Iterable
from typing import ClassVar

from wrapperir.ir import NO_HEADERS, KernelDefinitionLine, Language
from wrapperir.lowering.c.lanes import LaneAnalysis
from wrapperir.lowering.c.lines import SourceLines
from wrapperir.lowering.c.points import value_dtypes
from wrapperir.lowering.cpp.body import CppWriter
from wrapperir.lowering.cpp.language import CPP
from wrapperir.lowering.cpp.nests import write_nest
from wrapperir.lowering.cpp.snippets import SNIPPETS
from wrapperir.lowering.loops import Nest
from wrapperir.lowering.renderer import (
    KernelSequence,
    LoopKernel,
    Renderer,
    SourceOrigins,
    kernel_parameters,
)
from wrapperir.lowering.source_parts import needed_parts
from wrapperir.lowering.substitution import computed_origins

# Numbers wrap, zeros keep their sign, functions set no errno, and no operation traps.
# Loops that the compiler can vectorise are, with the widest registers.
HEAD = """\
#pragma GCC push_options
#pragma GCC optimize("wrapv", "signed-zeros", "no-math-errno", "no-trapping-math")
#pragma GCC optimize("tree-loop-vectorize")
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
        lacking = (d for d in value_dtypes(nest).values() if d not in CPP.stored)
        return next((f"C++ kernels have no {dtype.value}" for dtype in lacking), None)

    def render_kernel(self, kernel: LoopKernel) -> KernelDefinitionLine:
        """Return the kernel's definition."""
        return _definition(kernel, _function(kernel, 'extern "C"'))

    def source_origins(self, kernel: LoopKernel | KernelSequence) -> SourceOrigins:
        """Return the nodes of the rows of a kernel's source."""
        if isinstance(kernel, KernelSequence):
            parts = [part.kernel for part in kernel.parts]
            functions = _sequence_functions(kernel, parts)
        else:
            functions = _function(kernel, 'extern "C"')
        begin = _preamble(functions).count("\n") + 1
        return SourceOrigins.of_lines(begin, functions.origins)

    def render_sequence(self, sequence: KernelSequence) -> KernelDefinitionLine:
        """Return a kernel with a function for each nest, which it calls in order."""
        kernels = {part.kernel.name: part.kernel for part in sequence.parts}
        return _definition(sequence, _sequence_functions(sequence, kernels.values()))


def _definition(
    kernel: LoopKernel | KernelSequence, functions: SourceLines
) -> KernelDefinitionLine:
    using = _USING.format(kernel.name)
    source = "\n".join((_preamble(functions), *functions.lines, TAIL, using, ""))
    return KernelDefinitionLine(
        name=kernel.name,
        language=Language.CPP,
        parameters=kernel_parameters(kernel),
        entry=kernel.name,
        source=source,
        metadata=(NO_HEADERS,),
    )


def _preamble(functions: SourceLines) -> str:
    """Return what comes before a kernel's functions: what they need."""
    return "\n".join((HEAD, *needed_parts("\n".join(functions.lines), SNIPPETS)))


def _sequence_functions(
    sequence: KernelSequence, kernels: Iterable[LoopKernel]
) -> SourceLines:
    """Return a function for each nest, and one that calls them in order.

    The lines of a function have the origins of all ``kernels`` of its name.
    """
    functions: dict[str, SourceLines] = {}
    for kernel in kernels:
        function = _function(kernel, "static")
        functions.setdefault(kernel.name, function).add_origins(function)
    source = SourceLines()
    for function in functions.values():
        source.append(function)
    with source.block(f'extern "C" {_head(sequence)}'):
        for part in sequence.parts:
            given = [f"p{n}" for n in part.buffers] + [f"s{n}" for n in part.symbols]
            given += ["fault"] if part.kernel.fault is not None else []
            with source.computing(computed_origins(part.kernel.nest)):
                source.write(f"{part.kernel.name}({', '.join(given)});")
    return source


def _function(kernel: LoopKernel, linkage: str) -> SourceLines:
    """Return the function of a nest."""
    pointers = {buffer.name: f"p{n}" for n, buffer in enumerate(kernel.buffers)}
    types = {buffer.name: buffer.type for buffer in kernel.buffers}
    writer = CppWriter(
        pointers,
        types,
        ", ".join(_parameters(kernel)),
        LaneAnalysis(kernel.nest, types),
        has_fault=kernel.fault is not None,
    )
    for n, symbol in enumerate(kernel.symbols):
        writer.indices.add_size(symbol, f"s{n}")
    with writer.source.block(f"{linkage} {_head(kernel)}"):
        write_nest(writer, kernel.nest, writer.lanes.choose())
    return writer.source


def _head(kernel: LoopKernel | KernelSequence) -> str:
    parameters = ", ".join(f"{type} {name}" for name, type in _parameters(kernel).items())
    return f"void {kernel.name}({parameters})"


def _parameters(kernel: LoopKernel | KernelSequence) -> dict[str, str]:
    """Return the types of the entry's parameters by their names."""
    parameters: dict[str, str] = {}
    for n, buffer in enumerate(kernel.buffers):
        const = "" if buffer.access.writes else "const "
        parameters[f"p{n}"] = f"{const}stored<{CPP.stored[buffer.type.dtype]}>*"
    for n, symbol in enumerate(kernel.symbols):
        parameters[f"s{n}"] = CPP.stored[symbol.dtype]
    if kernel.fault is not None:
        parameters["fault"] = "stored<i32>*"
    return parameters
