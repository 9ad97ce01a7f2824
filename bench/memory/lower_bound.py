"""The most bytes alive at once of the buffers that a program without pools allocates.

No plan for the same lines in the same order is lower.  It shares no code with the analyses
that planning uses, so that it checks them.

A buffer lives from the first line that uses it to the last one, or to the end if it is
an output; an operator's result from its line.  ``reuse`` begins a new buffer where the
first line that uses it only writes; else it goes on with the old one, in place.  Sizes
are rounded up to ``UNIT``, as allocators do.
"""

from collections.abc import Iterator, Mapping

from attrs import define, frozen

from wrapperir.ir import (
    Access,
    AllocateLine,
    BodyLine,
    BufferRef,
    DefinitionLine,
    ExternKernelLine,
    FreeLine,
    KernelCallLine,
    MultiOutputLine,
    Program,
    ReinterpretLine,
    ReuseLine,
    TensorParameter,
    TensorType,
    TupleType,
    ValueType,
    runtime_parameters,
    storage_extent,
)
from wrapperir.ir.blocks import blocks_of
from wrapperir.ir.line_effects import definitions, uses
from wrapperir.ir.mentions import buffers_in

UNIT = 64
"""Bytes that sizes are rounded up to."""


@define(eq=False)
class Lifetime:
    """A buffer of ``bytes`` bytes used from line ``begin`` to line ``end``, inclusive."""

    name: str
    made_by: str
    bytes: int
    begin: int
    end: int
    output: bool = False


@frozen
class Bound:
    """The most bytes alive at once, the line where, and what is alive there."""

    bytes: int
    line: int
    alive: tuple[Lifetime, ...]


@define(eq=False)
class _Memory:
    """What a name and its views refer to.

    A ``reuse`` not yet used is undecided: ``fresh`` is what it becomes if it is first
    written as a whole.
    """

    lifetime: Lifetime | None
    fresh: Lifetime | None = None


def lower_bound(program: Program) -> Bound:
    """Return the most bytes alive at once.

    Raises:
        ValueError: a size is not a number, or a line has nested blocks.
    """
    lifetimes = buffer_lifetimes(program)
    changes = [0] * (len(program.lines) + 2)
    for lifetime in lifetimes:
        changes[lifetime.begin] += lifetime.bytes
        changes[lifetime.end + 1] -= lifetime.bytes
    alive = most = line = 0
    for index, change in enumerate(changes):
        alive += change
        if alive > most:
            most, line = alive, index
    there = tuple(life for life in lifetimes if life.begin <= line <= life.end)
    return Bound(most, line, there)


def buffer_lifetimes(program: Program) -> tuple[Lifetime, ...]:
    """Return the buffers that a program allocates and uses.

    Raises:
        ValueError: a size is not a number, or a line has nested blocks.
    """
    walk = _Walk({line.name: line for line in program.definitions})
    for index, line in enumerate(program.lines):
        walk.visit(index, line)
    end = len(program.lines)
    for argument in program.outputs:
        for name in buffers_in(argument):
            walk.use(name, end)
            memory = walk.memories.get(name)
            if memory is not None and memory.lifetime is not None:
                memory.lifetime.output = True
    return tuple(life for life in walk.lifetimes if life.begin >= 0)


class _Walk:
    def __init__(self, kernels: Mapping[str, DefinitionLine]) -> None:
        self.lifetimes: list[Lifetime] = []
        self.memories: dict[str, _Memory] = {}
        self._elements: dict[tuple[str, tuple[int, ...]], _Memory] = {}
        self._kernels = kernels

    def visit(self, index: int, line: BodyLine) -> None:
        if blocks_of(line):
            raise ValueError(f"line {index} has nested blocks")
        match line:
            case FreeLine():
                return
            case AllocateLine():
                self.memories[line.result] = self._new(line.result, "allocate", line.type)
            case ReinterpretLine():
                self._share(line.result, line.source)
            case ReuseLine():
                old = self.memories.get(line.source)
                fresh = _lifetime(line.result, "reuse", line.type)
                known = None if old is None else old.lifetime
                self.memories[line.result] = _Memory(known, fresh)
            case MultiOutputLine():
                element = self._elements.get((line.source, line.indices))
                if element is not None:
                    self.memories[line.result] = element
            case _:
                for name in dict.fromkeys(uses(line)):
                    self.use(name, index, _only_writes(line, name, self._kernels))
                self._define(index, line)

    def use(self, name: str, index: int, only_writes: bool = False) -> None:
        """Note a use of a name by a line."""
        memory = self.memories.get(name)
        if memory is None:
            return
        if memory.fresh is not None and only_writes:
            memory.lifetime = memory.fresh
            self.lifetimes.append(memory.fresh)
        memory.fresh = None
        lifetime = memory.lifetime
        if lifetime is not None:
            lifetime.begin = index if lifetime.begin < 0 else lifetime.begin
            lifetime.end = index

    def _define(self, index: int, line: BodyLine) -> None:
        for name, type in definitions(line):
            maker = line.operator if isinstance(line, ExternKernelLine) else "line"
            if isinstance(line, ExternKernelLine) and line.aliases:
                self._share(name, line.aliases[0])
            elif isinstance(type, TensorType):
                self.memories[name] = self._new(name, maker, type)
                self.use(name, index)
            elif isinstance(type, TupleType):
                for path, element in tensors_in(type):
                    label = f"{name}{list(path)}"
                    memory = self.memories[label] = self._new(label, maker, element)
                    self._elements[name, path] = memory
                    self.use(label, index)

    def _share(self, name: str, source: str) -> None:
        if source in self.memories:
            self.memories[name] = self.memories[source]

    def _new(self, name: str, made_by: str, type: TensorType) -> _Memory:
        lifetime = _lifetime(name, made_by, type)
        self.lifetimes.append(lifetime)
        return _Memory(lifetime)


def _lifetime(name: str, made_by: str, type: TensorType) -> Lifetime:
    return Lifetime(name, made_by, storage_bytes(type), -1, -1)


def storage_bytes(type: TensorType) -> int:
    """Return the bytes that an allocator takes for a tensor of this type.

    Raises:
        ValueError: its size is not a number.
    """
    extent = storage_extent(type)
    if not isinstance(extent, int):
        raise ValueError(f"not a number of elements: {extent}")
    return round_up(extent * type.dtype.itemsize)


def round_up(size: int) -> int:
    """Return the bytes that an allocator takes for ``size`` bytes."""
    return -(-size // UNIT) * UNIT


def tensors_in(
    type: ValueType, path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], TensorType]]:
    """Yield the tensors in a type, and the indices that lead to each."""
    if isinstance(type, TensorType):
        yield path, type
    elif isinstance(type, TupleType):
        for index, element in enumerate(type.elements):
            yield from tensors_in(element, (*path, index))


def _only_writes(line: BodyLine, name: str, kernels: Mapping[str, DefinitionLine]) -> bool:
    """Say whether a line writes a buffer and reads nothing of it."""
    if isinstance(line, ExternKernelLine):
        out = dict(line.keywords).get("out")
        return out == BufferRef(name) and uses(line).count(name) == 1
    if not isinstance(line, KernelCallLine):
        return False
    accesses = [
        parameter.access
        for parameter, argument in zip(
            runtime_parameters(kernels[line.kernel].parameters), line.arguments, strict=True
        )
        if isinstance(parameter, TensorParameter) and argument == BufferRef(name)
    ]
    return all(access is Access.WRITE for access in accesses)
