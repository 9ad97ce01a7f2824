"""Facts of a whole program that emitters need before they write its first line."""

from collections.abc import Mapping
from functools import cached_property
from itertools import chain

from attrs import frozen

from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.emit.runnable_kernels import Runnable, runnable_kernels, value_types
from wrapperir.ir import (
    DefinitionLine,
    Device,
    KernelCallLine,
    MultiKernelLine,
    Program,
    SymbolDefinitionLine,
    TensorType,
    ValueType,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import Effects, LineEffects, Origin

_ALLOCATIONS = frozenset({Origin.ALLOCATED, Origin.PROGRAM, Origin.POOL})


@frozen(eq=False)
class ProgramFacts:
    """Facts of a verified program; each is computed when it is first asked for."""

    program: Program

    @cached_property
    def definitions(self) -> Mapping[str, DefinitionLine]:
        """The kernels and multi-kernels, by name."""
        return {line.name: line for line in self.program.definitions}

    @cached_property
    def constants(self) -> frozenset[str]:
        """The names of the constants."""
        return frozenset(constant.name for constant in self.program.constants)

    @cached_property
    def types(self) -> Mapping[str, ValueType]:
        """The type of every value, in nested blocks too."""
        return value_types(self.program)

    @cached_property
    def symbols(self) -> Mapping[str, SymbolDefinitionLine]:
        """The definition of every symbol, in nested blocks too, in order."""
        lines = chain(self.program.symbols, walk_lines(self.program.lines))
        symbols = [line for line in lines if isinstance(line, SymbolDefinitionLine)]
        return {line.symbol: line for line in symbols}

    @cached_property
    def kinds(self) -> NumberKinds:
        """The kind of every symbol."""
        return NumberKinds({name: line.kind for name, line in self.symbols.items()})

    @cached_property
    def kernel_devices(self) -> Mapping[str, frozenset[str]]:
        """The kinds of device that each kernel may be called on.

        A kernel that no call may run is not in it.
        """
        kinds: dict[str, set[str]] = {}
        for line, found in self._runnable.values():
            for candidate in found.kernels.values():
                kinds.setdefault(candidate.kernel.name, set()).add(line.device.kind)
        return {name: frozenset(kinds) for name, kinds in kinds.items()}

    @cached_property
    def first_gpu(self) -> Device | None:
        """The first CUDA device with an index that a line allocates on or runs on."""
        effects = map(LineEffects(None).visit, walk_lines(self.program.lines))
        named = map(_named_gpu, effects)
        return next((device for device in named if device is not None), None)

    def runnable(self, line: KernelCallLine) -> Runnable:
        """Return the kernels that a call of this program may run, and what decides."""
        _, found = self._runnable[id(line)]
        return found

    def tensor_type(self, name: str) -> TensorType:
        """Return the type of a value that a verified program uses as a tensor."""
        type = self.types[name]
        assert isinstance(type, TensorType), name
        return type

    @cached_property
    def _runnable(self) -> Mapping[int, tuple[KernelCallLine, Runnable]]:
        calls = [x for x in walk_lines(self.program.lines) if isinstance(x, KernelCallLine)]
        multi = any(isinstance(x, MultiKernelLine) for x in self.program.definitions)
        # Types are read where a choice depends on sizes.
        types: Mapping[str, ValueType] = self.types if multi else {}
        return {
            id(line): (line, runnable_kernels(self.definitions, line, types))
            for line in calls
        }


def _named_gpu(effects: Effects) -> Device | None:
    """Return the CUDA device with an index that a line allocates on or runs on."""
    device = effects.device
    if device is None or device.kind != "cuda" or device.index is None:
        return None
    allocates = any(made.origin in _ALLOCATIONS for made in effects.definitions)
    return device if allocates or effects.launches else None
