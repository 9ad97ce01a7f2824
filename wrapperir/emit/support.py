"""The support of a program by an emitter, checked before any code is written."""

from collections.abc import Iterator, Sequence, Set

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, Diagnostic, LinePath
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.contract import Support
from wrapperir.emit.runnable_kernels import resolve_multi_kernels
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.line_effects import LineEffects


def fit_program(program: wir.Program, support: Support) -> wir.Program:
    """Return a verified program without what passes can replace for an emitter.

    Multi-kernels become chosen kernels, and graph regions calls of subgraphs, where
    ``support`` lacks them.
    """
    from wrapperir.passes import open_graph_regions  # loaded late: all passes

    if not support.choosing:
        program = resolve_multi_kernels(program)
    if wir.GraphRegionLine not in support.lines:
        program = open_graph_regions(program)
    return program


def check_support(
    program: wir.Program, emitter: str, support: Support
) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each kind of line, and each other need, that is lacking.

    Nested blocks are included, choices of multi-kernels that no call runs are not.
    ``emitter`` is the name to blame in the messages.
    """
    found: list[Diagnostic] = []
    lacking: dict[type[wir.Line], list[LinePath]] = {}
    idle = _idle_choices(program)
    for index, definition in enumerate(program.definitions):
        path: LinePath = ("definitions", index)
        if definition.name in idle:
            continue
        if type(definition) not in support.lines:
            lacking.setdefault(type(definition), []).append(path)
        elif isinstance(definition, wir.KernelDefinitionLine):
            found.extend(_check_kernel(emitter, support, definition, path))
    places = [
        *((("inputs", i), value.type) for i, value in enumerate(program.inputs)),
        *((("constants", i), value.type) for i, value in enumerate(program.constants)),
    ]
    for path, value_type in places:
        if isinstance(value_type, wir.TensorType):
            found.extend(_check_device(emitter, support, value_type.device, 0, path))
    effects = LineEffects(None)
    for line, path in walk_places(program.lines):
        if type(line) not in support.lines:
            lacking.setdefault(type(line), []).append(path)
            continue
        done = effects.visit(line)
        for made in done.definitions:
            found.extend(_check_zero_mode(emitter, support, made.workspace, path))
        number = 0 if done.stream is None else done.stream.number
        if done.device is not None and (number or support.devices is not None):
            found.extend(_check_device(emitter, support, done.device, number, path))
    kinds = (_unsupported_lines(emitter, kind, paths) for kind, paths in lacking.items())
    return (*kinds, *found)


def _idle_choices(program: wir.Program) -> Set[str]:
    """Return the kernels that are choices of multi-kernels and that no call may run."""
    choices = {
        choice.kernel
        for line in program.definitions
        if isinstance(line, wir.MultiKernelLine)
        for choice in line.choices
    }
    return choices - ProgramFacts(program).kernel_devices.keys() if choices else choices


def _check_kernel(
    emitter: str, support: Support, kernel: wir.KernelDefinitionLine, path: LinePath
) -> Iterator[Diagnostic]:
    names = [p.name for p in kernel.parameters if isinstance(p, wir.DescriptorParameter)]
    if kernel.language not in support.languages:
        yield Diagnostic(
            Code.UNSUPPORTED_LANGUAGE,
            f"the {emitter} emitter has no support for kernels in {kernel.language.value}",
            path=path,
            subject=kernel.name,
            hint=_alternatives("languages", support.languages),
        )
    elif names and not support.descriptors:
        yield Diagnostic(
            Code.UNSUPPORTED_FEATURE,
            f"the {emitter} emitter has no support for tensor descriptors, and "
            f"@{kernel.name} takes {', '.join(names)} behind one",
            path=path,
            subject=kernel.name,
            hint="use another emitter, or a kernel that takes pointers",
        )


def unsupported_device(
    emitter: str,
    device: wir.Device,
    supported: frozenset[str],
    path: LinePath | None = None,
) -> Diagnostic:
    """Return the report of a device of a kind that is not ``supported``: WIR704."""
    return Diagnostic(
        Code.UNSUPPORTED_DEVICE,
        f"the {emitter} emitter has no support for device {device}",
        path=path,
        subject=str(device),
        hint=_alternatives("devices", supported),
    )


def _check_device(
    emitter: str, support: Support, device: wir.Device, stream: int, path: LinePath
) -> Iterator[Diagnostic]:
    if support.devices is not None and device.kind not in support.devices:
        yield unsupported_device(emitter, device, support.devices, path)
    elif stream and device.kind not in support.streams:
        yield Diagnostic(
            Code.UNSUPPORTED_FEATURE,
            f"the {emitter} emitter has no support for streams of {device}:"
            f" all is on stream 0, not on stream {stream}",
            path=path,
            subject=f"stream({stream})",
            hint=_alternatives("devices with streams", support.streams),
        )


def _check_zero_mode(
    emitter: str, support: Support, mode: wir.ZeroMode | None, path: LinePath
) -> Iterator[Diagnostic]:
    if mode is not None and mode not in support.zero_modes:
        yield Diagnostic(
            Code.UNSUPPORTED_FEATURE,
            f"the {emitter} emitter has no support for {mode.value} workspaces",
            path=path,
            subject=mode.value,
            hint=_alternatives("zero modes", support.zero_modes),
        )


def _unsupported_lines(
    emitter: str, kind: type[wir.Line], paths: Sequence[LinePath]
) -> Diagnostic:
    from wrapperir.passes import MEMORY_PASSES, memory_passes  # loaded late: all passes

    name = wir.keyword(kind)
    places = "" if len(paths) == 1 else f": there are {len(paths)}, and this is the first"
    kept = memory_passes(frozenset(wir.LINES) - {kind})
    makers = [f"`{other}`" for other in MEMORY_PASSES if other not in kept]
    hint = "use another emitter"
    if makers:
        each, it = ("makes", "it") if len(makers) == 1 else ("make", "them")
        hint += (
            f"; where passes run, {' and '.join(makers)} {each} such lines: leave {it} out"
        )
    return Diagnostic(
        Code.UNSUPPORTED_LINE,
        f"the {emitter} emitter has no support for {name} lines{places}",
        path=paths[0],
        subject=name,
        hint=hint,
    )


def _alternatives(what: str, names: frozenset[str]) -> str:
    return f"it supports these {what}: {', '.join(sorted(names)) or 'none'}"


CPU_ALIGNMENT = 64
"""Bytes to which PyTorch aligns every allocation on the CPU."""
CUDA_ALIGNMENT = 512
"""Bytes to which PyTorch's caching allocator aligns every allocation on a GPU."""


def natural_alignment(device: wir.Device) -> int:
    """Return the bytes to which PyTorch aligns every allocation on a device."""
    return CUDA_ALIGNMENT if device.kind == "cuda" else CPU_ALIGNMENT


def unsupported_memory(
    type: wir.TensorType | wir.PoolType,
    spaces: frozenset[str] = frozenset({wir.DEFAULT_SPACE}),
) -> Iterator[tuple[str, str | None]]:
    """Yield why a type cannot be allocated: a message, and its subject if it has one.

    ``spaces`` are the memory spaces that the emitter knows.
    """
    if type.space not in spaces:
        yield f"memory space {type.space[:80]!a} is unknown", type.space
    if isinstance(type, wir.TensorType) and type.layout is not None:
        name = type.layout.name
        yield f"vendor layout {name[:80]!a} is unknown", name
    if type.pinned and (type.alignment or 0) > CPU_ALIGNMENT:
        yield f"pinned memory has no alignment beyond {CPU_ALIGNMENT} bytes", None
