"""The support of a program by an emitter, checked before any code is written."""

from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from typing import TypeVar

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, Diagnostic, LinePath
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.contract import Support
from wrapperir.emit.runnable_kernels import resolve_multi_kernels
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.effects import Origin
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.renaming import replace_devices

T = TypeVar("T")

_NEW_MEMORY = (Origin.ALLOCATED, Origin.PROGRAM, Origin.POOL, Origin.BLOCK)
"""Origins of memory that a program allocates: a loop's results may be copies."""
_MOST_NAMES = 20
"""Names that a hint lists."""


def fit_program(program: wir.Program, support: Support) -> wir.Program:
    """Return a verified program without what passes can replace for an emitter.

    Multi-kernels become chosen kernels, graph regions calls of subgraphs, and collectives
    operator calls, where ``support`` lacks them.
    """
    # Loaded late: all passes.
    from wrapperir.passes import call_collectives, open_graph_regions

    if not support.choosing:
        program = resolve_multi_kernels(program)
    if wir.GraphRegionLine not in support.lines:
        program = open_graph_regions(program)
    if wir.CollectiveLine not in support.lines and wir.ExternKernelLine in support.lines:
        program = call_collectives(program)
    return program


def check_support(
    program: wir.Program, emitter: str, support: Support
) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each kind of line, and each other need, that is lacking.

    Nested blocks are included, choices of multi-kernels that no call runs are not.
    ``emitter`` is the name to blame in the messages.
    """
    found: list[Diagnostic] = []
    lacking: dict[str | None, list[Diagnostic]] = {}
    for diagnostic in lacking_places(program, emitter, support):
        if diagnostic.code is Code.UNSUPPORTED_LINE:
            lacking.setdefault(diagnostic.subject, []).append(diagnostic)
        else:
            found.append(diagnostic)
    return (*map(_first_of_kind, lacking.values()), *found)


def _first_of_kind(places: Sequence[Diagnostic]) -> Diagnostic:
    """Return the first of the diagnostics of one line kind, with their number."""
    first, count = places[0], len(places)
    if count == 1:
        return first
    said = f"{first.message}: there are {count}, and this is the first"
    return evolve(first, message=said)


def lacking_places(
    program: wir.Program, emitter: str, support: Support
) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each place of a program that ``support`` lacks something for.

    A place is a definition, an input, a constant or a line, in nested blocks too.
    """
    idle = _idle_choices(program)
    for index, definition in enumerate(program.definitions):
        path: LinePath = ("definitions", index)
        if definition.name in idle:
            continue
        if type(definition) not in support.lines:
            yield _unsupported_line(emitter, type(definition), path)
        elif isinstance(definition, wir.KernelDefinitionLine):
            yield from _check_kernel(emitter, support, definition, path)
    places = [
        *((("inputs", i), value.type) for i, value in enumerate(program.inputs)),
        *((("constants", i), value.type) for i, value in enumerate(program.constants)),
    ]
    for path, value_type in places:
        if isinstance(value_type, wir.TensorType):
            yield from _check_device(emitter, support, value_type.device, 0, path)
            if value_type.device.kind in support.hosted:  # it is copied to new memory
                yield from _check_alignment(emitter, support, value_type, path)
    effects = LineEffects(None)
    for line, path in walk_places(program.lines):
        if type(line) not in support.lines:
            yield _unsupported_line(emitter, type(line), path)
            continue
        done = effects.visit(line)
        for made in done.definitions:
            yield from _check_zero_mode(emitter, support, made.workspace, path)
            if made.origin in _NEW_MEMORY:
                yield from _check_alignment(emitter, support, made.type, path)
        number = 0 if done.stream is None else done.stream.number
        if done.device is not None and (number or support.devices is not None):
            yield from _check_device(emitter, support, done.device, number, path)
        if support.operators is not None and isinstance(line, wir.ExternKernelLine):
            yield from _check_operator(emitter, support.operators, line.operator, path)


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


def _check_alignment(
    emitter: str, support: Support, type: wir.ValueType, path: LinePath
) -> Iterator[Diagnostic]:
    most = support.greatest_alignment
    if most is None or not isinstance(type, wir.TensorType | wir.PoolType):
        return
    wanted = type.alignment or 1
    if wanted > most:
        yield Diagnostic(
            Code.UNSUPPORTED_FEATURE,
            f"the {emitter} emitter has no support for memory that is aligned to"
            f" {wanted} bytes",
            path=path,
            subject=str(wanted),
            hint=f"it aligns memory to at most {most} bytes",
        )


def _check_operator(
    emitter: str, operators: frozenset[str], operator: str, path: LinePath
) -> Iterator[Diagnostic]:
    if operator not in operators:
        yield Diagnostic(
            Code.UNSUPPORTED_FEATURE,
            f"the {emitter} emitter has no support for the operator {operator}",
            path=path,
            subject=operator,
            hint=_alternatives("operators", operators),
        )


def _unsupported_line(emitter: str, kind: type[wir.Line], path: LinePath) -> Diagnostic:
    name = wir.keyword(kind)
    return Diagnostic(
        Code.UNSUPPORTED_LINE,
        f"the {emitter} emitter has no support for {name} lines",
        path=path,
        subject=name,
        hint=_other_emitter_hint(name),
    )


@lru_cache(64)
def _other_emitter_hint(name: str) -> str:
    from wrapperir.passes import MEMORY_PASSES, memory_passes  # loaded late: all passes

    kept = memory_passes([kind for kind in wir.LINES if wir.keyword(kind) != name])
    makers = [f"`{other}`" for other in MEMORY_PASSES if other not in kept]
    hint = "use another emitter"
    if makers:
        each, it = ("makes", "it") if len(makers) == 1 else ("make", "them")
        hint += (
            f"; where passes run, {' and '.join(makers)} {each} such lines: leave {it} out"
        )
    return hint


def _alternatives(what: str, names: frozenset[str]) -> str:
    shown = sorted(names)[:_MOST_NAMES]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"it supports these {what}: {', '.join(shown) or 'none'}{more}"


def on_host(part: T, kinds: frozenset[str]) -> T:
    """Return a program, or a part of one, with the CPU in place of some kinds of devices.

    Callers hold what is on ``hosted`` devices of an emitter so.
    """
    if not kinds:
        return part
    return replace_devices(part, lambda each: wir.CPU if each.kind in kinds else each)


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
