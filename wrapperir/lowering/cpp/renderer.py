"""The renderer of C++ kernels."""

from typing import ClassVar

from wrapperir.ir import (
    BufferParameter,
    DType,
    KernelDefinitionLine,
    Language,
)
from wrapperir.lowering.cpp.body import BodyWriter, points
from wrapperir.lowering.cpp.elements import STORED
from wrapperir.lowering.cpp.snippets import needed_snippets
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    Check,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Nest,
    Reduce,
    Scan,
    Store,
    StoreMode,
)
from wrapperir.lowering.renderer import KernelBuffer, LoopKernel, Renderer

_PARALLEL_POINTS = 1 << 15
"""Instructions, counted for each point, from which several threads pay."""

# Numbers wrap, zeros keep their sign, and functions set no errno.
_HEAD = """\
#pragma GCC push_options
#pragma GCC optimize("wrapv", "signed-zeros", "no-math-errno")
namespace loops {"""
_TAIL = """\
}  // namespace loops
#pragma GCC pop_options"""


class CppRenderer(Renderer):
    """Writes C++ that includes no header.

    The entry takes an address for each buffer, then sizes, then the fault buffer.
    """

    language: ClassVar[Language] = Language.CPP
    device_kinds: ClassVar[frozenset[str]] = frozenset({"cpu"})

    def refusal(self, nest: Nest) -> str | None:
        """Return why the nest cannot be written: a dtype that C++ kernels lack."""
        for step in _instructions(nest):
            dtype = _dtype_of(step)
            if dtype is not None and dtype not in STORED:
                return f"C++ kernels have no {dtype.value}"
        return None

    def render_kernel(self, kernel: LoopKernel) -> KernelDefinitionLine:
        """Return the kernel's definition."""
        pointers = {buffer.name: f"p{n}" for n, buffer in enumerate(kernel.buffers)}
        body = BodyWriter(pointers, {buffer.name: buffer.type for buffer in kernel.buffers})
        for n, symbol in enumerate(kernel.symbols):
            body.indices.names[symbol.name] = f"s{n}"
            if symbol.dtype.is_integer:
                body.indices.ranges[symbol.name] = (0, float("inf"))
        with body.block(f'extern "C" void {kernel.name}({_format_parameters(kernel)})'):
            _write_nest(body, kernel)
        text = "\n".join(body.lines)
        source = "\n".join((_HEAD, *needed_snippets(text), text, _TAIL, ""))
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
        )


def _parameter(buffer: KernelBuffer) -> BufferParameter:
    return BufferParameter(buffer.name, buffer.type.dtype, buffer.access)


def _format_parameters(kernel: LoopKernel) -> str:
    parameters: list[str] = []
    for n, buffer in enumerate(kernel.buffers):
        const = "" if buffer.access.writes else "const "
        parameters.append(f"{const}stored<{STORED[buffer.type.dtype]}>* p{n}")
    parameters += [
        f"{STORED[symbol.dtype]} s{n}" for n, symbol in enumerate(kernel.symbols)
    ]
    if kernel.fault is not None:
        parameters.append("stored<i32>* fault")
    return ", ".join(parameters)


def _write_nest(body: BodyWriter, kernel: LoopKernel) -> None:
    nest = kernel.nest
    axes = nest.axes or (Axis("", 1),)
    if not _is_sequential(nest):
        _write_pragma(body, nest, axes)
    with body.loops(axes):
        body.write_steps(nest.body)


def _is_sequential(nest: Nest) -> bool:
    """Say whether points must run one after the other: those that combine with memory."""
    return any(
        isinstance(step, Store) and step.mode is not StoreMode.OVERWRITE
        for step in _instructions(nest)
    )


def _write_pragma(body: BodyWriter, nest: Nest, axes: tuple[Axis, ...]) -> None:
    work = points(axes) * max(_work_of(nest), 1)
    condition = ""
    if isinstance(work, int):
        if work < _PARALLEL_POINTS:
            return
    else:
        condition = f" if({body.indices.format(work)} >= {_PARALLEL_POINTS})"
    body.write(f"#pragma omp parallel for collapse({len(axes)}){condition}")


def _work_of(nest: Nest) -> int:
    """Return instructions for each point; a loop of unknown length counts once."""
    total = 0
    for step in nest.body:
        if isinstance(step, InnerLoop):
            length = points(step.axes)
            total += len(step.body) * (length if isinstance(length, int) else 1)
        else:
            total += 1
    return total


def _instructions(nest: Nest) -> list[Instruction]:
    found: list[Instruction] = []
    for step in nest.body:
        found += step.body if isinstance(step, InnerLoop) else (step,)
    return found


def _dtype_of(step: Instruction) -> DType | None:
    if isinstance(step, Literal | IndexValue | Load | Apply | Reduce | Scan):
        return step.dtype
    assert isinstance(step, Store | Check)
    return None
