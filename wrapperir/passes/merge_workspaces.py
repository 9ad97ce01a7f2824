"""Make one workspace of several that every kernel leaves zero."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from attrs import define, evolve, field

from wrapperir import ir as wir
from wrapperir.analysis import Storage, StorageKind, find_storages, storage_bytes
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.renaming import rename_values


def merge_workspaces(program: wir.Program) -> wir.Program:
    """Return the program with as few ``zero_per_program`` workspaces as its calls need.

    Before::

        kernel_definition @count cpp(in_ptr0: read f32*, ws_ptr: read_write i32*) {
          entry = count
          source {
            | extern "C" void count(const float* in_ptr0, int32_t* ws_ptr);
          }
        }

        program @main(%x: f32[8], %y: f32[8]) {
          %ws0 = allocate i32[16] workspace(zero_per_program)
          kernel_call @count(%x, %ws0)
          %ws1 = allocate i32[64] workspace(zero_per_program)
          kernel_call @count(%y, %ws1)
          return %x, %y
        }

    After::

        kernel_definition @count cpp(in_ptr0: read f32*, ws_ptr: read_write i32*) {
          entry = count
          source {
            | extern "C" void count(const float* in_ptr0, int32_t* ws_ptr);
          }
        }

        program @main(%x: f32[8], %y: f32[8]) {
          %ws1 = allocate i32[64] workspace(zero_per_program)
          kernel_call @count(%x, %ws1)
          kernel_call @count(%y, %ws1)
          return %x, %y
        }

    Each kernel leaves its workspaces zero, so that the next may use the same memory.
    Workspaces stay apart if one call uses both; if their dtype, device, memory space,
    pinning, alignment, layout, stream or symbolic size differ; if a kernel takes one
    behind a descriptor, which tells it their size; or if other lines than kernel calls
    use one.  Other workspaces are for ``plan_memory`` and ``reuse_buffers``.
    """
    definitions = {line.name: line for line in program.definitions}
    effects = LineEffects.of_program(program)
    found = find_storages(program.lines, program.outputs, (), effects)
    others = {
        name
        for line, effects_of_line in zip(program.lines, found.effects, strict=True)
        if not isinstance(line, wir.KernelCallLine)
        for name in effects_of_line.uses
    }
    others.update(_described(program.lines, definitions))
    groups: dict[_MergeClass, list[_MergedWorkspaces]] = {}
    for storage in sorted(found.storages, key=_largest_first):
        kind = None if storage.name in others else _class_of(storage)
        if kind is not None:
            _add(groups.setdefault(kind, []), storage)
    merged = [group.workspaces for alike in groups.values() for group in alike]
    return evolve(program, lines=_merged(program.lines, merged))


def _described(
    lines: Sequence[wir.BodyLine], kernels: Mapping[str, wir.DefinitionLine]
) -> Iterator[str]:
    """Yield the names that kernels take behind descriptors."""
    for line in lines:
        if isinstance(line, wir.KernelCallLine) and line.kernel in kernels:
            parameters = wir.runtime_parameters(kernels[line.kernel].parameters)
            for parameter, argument in zip(parameters, line.arguments, strict=True):
                if isinstance(parameter, wir.DescriptorParameter):
                    assert isinstance(argument, wir.BufferRef)
                    yield argument.name


_MergeClass: TypeAlias = tuple[object, ...]
"""The properties that merged workspaces share."""


@define
class _MergedWorkspaces:
    """Workspaces that are merged into the first, and the lines that use any of them."""

    workspaces: list[Storage] = field(factory=list[Storage])
    lines: set[int] = field(factory=set[int])


def _largest_first(storage: Storage) -> tuple[int, int]:
    bytes = storage_bytes(storage.type)
    return (-bytes if isinstance(bytes, int) else 0, storage.begin)


def _class_of(storage: Storage) -> _MergeClass | None:
    """Return the properties that another workspace must share to be merged with it."""
    type = storage.type
    if storage.kind is not StorageKind.PROGRAM or not isinstance(type, wir.TensorType):
        return None
    streams = {use.stream for use in storage.uses if use.stream is not None}
    if len(streams) != 1 or type.offset != 0:
        return None
    is_plain = isinstance(storage_bytes(type), int) and type.layout is None
    place = (type.device, type.space, type.pinned, type.alignment)
    return (*streams, type.dtype, *place, None if is_plain else type)


def _add(groups: list[_MergedWorkspaces], workspace: Storage) -> None:
    """Add a workspace to the first group that no line uses with it."""
    lines = {use.line for use in workspace.uses}
    for group in groups:
        if group.lines.isdisjoint(lines):
            break
    else:
        group = _MergedWorkspaces()
        groups.append(group)
    group.workspaces.append(workspace)
    group.lines |= lines


def _merged(
    lines: Sequence[wir.BodyLine], groups: Sequence[Sequence[Storage]]
) -> tuple[wir.BodyLine, ...]:
    """Return the lines with each group's workspaces merged into its first."""
    allocations: dict[int, wir.BodyLine | None] = {}
    became: dict[str, str] = {}
    for group in groups:
        kept = group[0]
        allocations.update((workspace.begin, None) for workspace in group)
        allocations[min(workspace.begin for workspace in group)] = lines[kept.begin]
        became |= {workspace.name: kept.name for workspace in group}
    if not became:
        return tuple(lines)
    changed = (
        allocations[index]
        if index in allocations
        else rename_values(line, lambda name: became.get(name, name))
        for index, line in enumerate(lines)
    )
    return tuple(line for line in changed if line is not None)
