"""The renderer: one work-item for each point of a nest's parallel axes, or for a vector."""

from typing import ClassVar

from wrapperir import ir as wir
from wrapperir.ir import DType
from wrapperir.lowering.c.instructions import COMBINING
from wrapperir.lowering.c.points import points, value_dtypes
from wrapperir.lowering.c.vectors import VectorWriter
from wrapperir.lowering.dtypes import HALVES
from wrapperir.lowering.loops import Check, Nest, Store, StoreMode
from wrapperir.lowering.renderer import (
    KernelSequence,
    LoopKernel,
    Renderer,
    SourceOrigins,
    kernel_parameters,
)
from wrapperir.lowering.substitution import instructions
from wrapperir_opencl.kernels import FAULT, LANGUAGE
from wrapperir_opencl.renderer.language import OpenclLanguage, OpenclVectors
from wrapperir_opencl.renderer.parts import combining_function, kernel_source

OPENCL, VECTORS = OpenclLanguage(), OpenclVectors()


class OpenclRenderer(Renderer):
    """Writes OpenCL C 1.2.

    Each buffer is two parameters: the memory, and the elements before its first one.
    Inner loops run in order in each work-item.  Contiguous points are vectors.
    """

    language: ClassVar[wir.Language] = wir.Language.OPAQUE
    device_kinds: ClassVar[frozenset[str]] = frozenset({"opencl"})

    def refusal(self, nest: Nest) -> str | None:
        """Return why the nest cannot be written."""
        dtypes = value_dtypes(nest)
        for dtype in dtypes.values():
            if dtype not in OPENCL.stored:
                return f"OpenCL kernels have no {dtype.value}"
        for step in instructions(nest.body):
            if isinstance(step, Store) and step.mode is not StoreMode.OVERWRITE:
                dtype = dtypes[step.value]
                if dtype.itemsize < 4 or dtype in HALVES:
                    return f"OpenCL has no atomic operations on {dtype.value}"
        return None

    def render_kernel(self, kernel: LoopKernel) -> wir.KernelDefinitionLine:
        """Return the kernel's definition; its grid has the work-items."""
        return self._rendered(kernel)[0]

    def source_origins(self, kernel: LoopKernel | KernelSequence) -> SourceOrigins | None:
        """Return the nodes of the rows of a kernel's source."""
        return self._rendered(kernel)[1] if isinstance(kernel, LoopKernel) else None

    def _rendered(
        self, kernel: LoopKernel
    ) -> tuple[wir.KernelDefinitionLine, SourceOrigins]:
        has_checks = any(isinstance(x, Check) for x in instructions(kernel.nest.body))
        writer = _OpenclWriter(kernel)
        grid = writer.write_kernel(kernel, has_checks)
        written = writer.source
        source = kernel_source(writer.functions, "\n".join(written.lines))
        begin = source.count("\n") - len(written.lines)
        definition = wir.KernelDefinitionLine(
            name=kernel.name,
            language=self.language,
            parameters=kernel_parameters(kernel),
            grid=(grid,),
            entry=kernel.name,
            metadata=(LANGUAGE, FAULT) if has_checks else (LANGUAGE,),
            source=source,
        )
        return definition, SourceOrigins.of_lines(begin, written.origins)


class _OpenclWriter(VectorWriter):
    """Writes a kernel; ``functions`` are what its atomic stores need."""

    def __init__(self, kernel: LoopKernel) -> None:
        pointers = {b.name: f"p{n}" for n, b in enumerate(kernel.buffers)}
        types = {b.name: b.type for b in kernel.buffers}
        super().__init__(OPENCL, VECTORS, kernel.nest, pointers, types)
        self.functions: list[str] = []

    def write_kernel(self, kernel: LoopKernel, has_checks: bool) -> wir.Expr:
        """Write the kernel's function, and return the number of its work-items."""
        given, lines = list[str](), list[str]()
        for n, buffer in enumerate(kernel.buffers):
            const = "" if buffer.access.writes else "const "
            kind = OPENCL.stored[buffer.type.dtype]
            given += [f"global {const}{kind} *p{n}", f"long o{n}"]
            lines.append(f"p{n} += o{n};")
        for n, symbol in enumerate(kernel.symbols):
            given.append(f"{OPENCL.stored[symbol.dtype]} n{n}")
            wide = DType.I64 if symbol.dtype.is_integer else DType.F64
            lines.append(f"const {OPENCL.stored[wide]} s{n} = n{n};")
            self.indices.add_size(symbol, f"s{n}")
        given += ["global int *fault", "int fault_number"] if has_checks else []
        with self.source.block(f"kernel void {kernel.name}({', '.join(given)})"):
            self.source.write(*lines)
            grid = self.write_point(kernel.nest.axes, "get_global_id(0)")
            self.write_nest()
        return points(grid)

    def format_failure(self, number: int) -> str:
        """Return statements that leave the number of the kernel, and end the work-item."""
        return "atomic_cmpxchg(fault, 0, fault_number); return;"

    def format_update(self, mode: StoreMode, dtype: DType, element: str, value: str) -> str:
        """Return the call of a function that combines atomically."""
        kind = OPENCL.scalar(dtype)
        name = f"combine_{mode.value}_{kind}"
        result = OPENCL.apply(COMBINING[mode], dtype, (dtype, dtype), ("a", "b"))
        function = combining_function(name, kind, dtype.itemsize == 8, result)
        if function not in self.functions:
            self.functions.append(function)
        return f"{name}(&{element}, {value});"
