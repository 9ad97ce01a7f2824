"""The renderer of Triton kernels."""

from typing import ClassVar

from attrs import evolve

from wrapperir.ir import (
    ConstexprParameter,
    DType,
    Expr,
    KernelDefinitionLine,
    Language,
    Symbol,
    ceildiv,
    mul,
)
from wrapperir.lowering.loops import Nest
from wrapperir.lowering.renderer import (
    KernelBuffer,
    KernelSequence,
    LoopKernel,
    Renderer,
    SourceOrigins,
    kernel_parameters,
)
from wrapperir.lowering.source_parts import needed_parts
from wrapperir.lowering.triton.body import KernelBody, index_ranges
from wrapperir.lowering.triton.device_functions import FUNCTIONS
from wrapperir.lowering.triton.launch_rules import is_masked, plan_launches
from wrapperir.lowering.triton.online_softmax import join_softmax
from wrapperir.lowering.triton.refusals import nest_refusal
from wrapperir.lowering.triton.tile import (
    KernelNames,
    Tile,
    is_held,
    needs_long_offsets,
    plan_tile,
)
from wrapperir.lowering.triton.writer import Writer

_IMPORTS = "import triton\nimport triton.language as tl"
_LIBRARY = "from triton.language.extra import libdevice"


class TritonRenderer(Renderer):
    """Writes Triton kernels for GPUs.

    A kernel is launched on a grid of one dimension, which counts tiles.  Products are not
    contracted into sums, and ``f32`` keeps numbers below the normal ones, as in eager.
    """

    language: ClassVar[Language] = Language.TRITON
    device_kinds: ClassVar[frozenset[str]] = frozenset({"cuda"})

    def refusal(self, nest: Nest) -> str | None:
        """Return why the nest cannot be written in Triton, or ``None``."""
        return nest_refusal(nest)

    def render_kernel(self, kernel: LoopKernel) -> KernelDefinitionLine:
        """Return the kernel's definition: its source, parameters, grid and configs."""
        return self._rendered(kernel)[0]

    def source_origins(self, kernel: LoopKernel | KernelSequence) -> SourceOrigins | None:
        """Return the nodes of the rows of a kernel's source."""
        return self._rendered(kernel)[1] if isinstance(kernel, LoopKernel) else None

    def _rendered(self, kernel: LoopKernel) -> tuple[KernelDefinitionLine, SourceOrigins]:
        buffers = (*kernel.buffers, *([kernel.fault] if kernel.fault else []))
        names = _names(kernel, buffers)
        if not is_held(kernel):
            kernel = evolve(kernel, nest=join_softmax(kernel.nest))
        tile = plan_tile(kernel, names)
        ranges = index_ranges(kernel)
        launches = plan_launches(kernel, tile, ranges)
        dims = tile.blocked
        right = () if tile.right is None else (tile.right,)
        masked = frozenset(dim for dim in (*dims, *right) if is_masked(dim, launches))
        is_wide = needs_long_offsets(kernel, tile, ranges)
        writer = Writer(tile, names, masked, DType.I64 if is_wide else DType.I32)
        KernelBody(kernel, writer, ranges, is_wide).write()
        source = _format_source(kernel, writer, [dim.block for dim in dims])
        options = [("enable_fp_fusion", False)]
        if "libdevice." in source:
            options.append(("enable_reflect_ftz", False))
        if "tl.device_assert" in source:  # which is left out without ``debug``
            options += [("debug", True), ("sanitize_overflow", False)]
        definition = KernelDefinitionLine(
            name=kernel.name,
            language=Language.TRITON,
            parameters=(
                *kernel_parameters(kernel),
                *(ConstexprParameter(dim.block) for dim in dims),
            ),
            grid=(_grid(tile),),
            configs=tuple(launch.config(options) for launch in launches),
            entry=kernel.name,
            source=source,
        )
        head = source.count("\n") - max(len(writer.lines), 1) - 1
        return definition, SourceOrigins.of_lines(head, [(), *writer.origins])


def _names(kernel: LoopKernel, buffers: tuple[KernelBuffer, ...]) -> KernelNames:
    """Return the names of a kernel's parameters, which are in use."""
    return KernelNames(
        [
            *("tl", "triton", "libdevice", kernel.name),
            *(buffer.name for buffer in buffers),
            *(symbol.name for symbol in kernel.symbols),
        ]
    )


def _grid(tile: Tile) -> Expr:
    programs: Expr = 1
    for dim in tile.parallel:
        count = dim.extent
        if not dim.is_single:
            count = ceildiv(count, Symbol(dim.block))
        programs = mul(programs, count)
    return programs


def _format_source(kernel: LoopKernel, writer: Writer, blocks: list[str]) -> str:
    parameters = [buffer.name for buffer in kernel.buffers]
    parameters += [symbol.name for symbol in kernel.symbols]
    parameters += [kernel.fault.name] if kernel.fault else []
    parameters += [f"{block}: tl.constexpr" for block in blocks]
    body = "\n".join(f"    {line}" for line in writer.lines or ["pass"])
    entry = f"@triton.jit\ndef {kernel.name}({', '.join(parameters)}):\n{body}\n"
    text = "\n\n\n".join([*needed_parts(body, FUNCTIONS), entry])
    imports = f"{_IMPORTS}\n{_LIBRARY}" if "libdevice." in text else _IMPORTS
    return f"{imports}\n\n\n{text}"
