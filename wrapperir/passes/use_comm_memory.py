"""Place what collectives read and write in the memory space for communication."""

from collections.abc import Iterator, Sequence

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.analysis import (
    BlockStorages,
    Body,
    Storage,
    StorageKind,
    find_storages,
    rewrite_bodies,
)
from wrapperir.ir.line_effects import LineEffects


def use_comm_memory(
    program: wir.Program, *, devices: str = "cuda", space: str = "comm"
) -> wir.Program:
    """Return the program with buffers of collectives in a memory space of their own.

    Before::

        program @main(%x: f32[64]@cuda) {
          group "0" size 2

          %y = allocate f32[128]@cuda
          %w = collective all_gather "0" reads(%x) writes(%y) @cuda
          wait_collective %w reads(%x) writes(%y) @cuda
          %z = extern_kernel aten.sum.default(%y) @cuda : f32[]@cuda
          free %y
          return %z
        }

    After::

        program @main(%x: f32[64]@cuda) {
          group "0" size 2

          %y = allocate f32[128]@cuda {space = comm}
          %w = collective all_gather "0" reads(%x) writes(%y) @cuda
          wait_collective %w reads(%x) writes(%y) @cuda
          %z = extern_kernel aten.sum.default(%y) @cuda : f32[]@cuda
          free %y
          return %z
        }

    ``devices`` are kinds of devices, with commas between them.  These stay where they are:
    inputs, outputs, results of operators, buffers with a vendor layout or of pinned memory,
    and those that a line with blocks is given.  Run it before memory is planned: planners
    keep each memory space in pools of its own.  Linear in the program.
    """
    kinds = frozenset(devices.split(","))
    effects = LineEffects.of_program(program)

    def placed(body: Body) -> Sequence[wir.BodyLine]:
        found = find_storages(body.lines, body.results, body.entry, effects)
        chosen = _communicated(body.lines, found)
        names = {
            name
            for storage in chosen
            if _may_move(storage, kinds)
            for name in storage.names
        }
        return [_in_space(line, names, space) for line in body.lines]

    return rewrite_bodies(program, placed)


def _communicated(lines: Sequence[wir.BodyLine], found: BlockStorages) -> Iterator[Storage]:
    """Yield the storages that collectives use, if all names of them are known types'."""
    used: dict[int, Storage] = {}
    left: set[int] = set()
    for line, done in zip(lines, found.effects, strict=True):
        names = (*done.uses, *(made.name for made in done.definitions))
        storages = [each for name in names for each in found.of_name.get(name, ())]
        if isinstance(line, wir.CollectiveLine):
            used.update((id(each), each) for each in storages)
        elif done.blocks or any(made.may_alias for made in done.definitions):
            left.update(map(id, storages))
    return (storage for key, storage in used.items() if key not in left)


def _may_move(storage: Storage, kinds: frozenset[str]) -> bool:
    type = storage.type
    return (
        storage.kind is StorageKind.ALLOCATED
        and isinstance(type, wir.TensorType)
        and type.device.kind in kinds
        and type.space == wir.DEFAULT_SPACE
        and not (type.pinned or type.layout or storage.escapes)
    )


def _in_space(line: wir.BodyLine, names: set[str], space: str) -> wir.BodyLine:
    """Return the line, in the memory space if it defines one of the names."""
    if isinstance(line, wir.AllocateLine) and line.result in names:
        return evolve(line, type=evolve(line.type, space=space))
    if isinstance(line, wir.ReinterpretLine | wir.ReuseLine) and line.result in names:
        return evolve(line, type=evolve(line.type, space=space))
    return line
