"""Facts of a whole program that emitters need before they write its first line."""

from collections.abc import Mapping

from attrs import frozen

from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.emit.runnable_kernels import Runnable, runnable_kernels, value_types
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    BodyLine,
    DefinitionLine,
    ExternKernelLine,
    KernelCallLine,
    SymbolDefinitionLine,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import Device, TensorType, ValueType


@frozen(eq=False)
class ProgramFacts:
    """Facts of a verified program, computed once by :func:`program_facts`.

    ``definitions`` are the kernels and multi-kernels by name, ``constants`` the names of
    the constants, ``types`` the type of every value, in nested blocks too, and ``kinds``
    the kind of every symbol.  ``kernel_devices`` has the kinds of device that each kernel
    may be called on; a kernel that no call may run is not in it.  ``first_gpu`` is the
    first CUDA device with an index that a line allocates on or runs on.
    """

    program: Program
    definitions: Mapping[str, DefinitionLine]
    constants: frozenset[str]
    types: Mapping[str, ValueType]
    kinds: NumberKinds
    kernel_devices: Mapping[str, frozenset[str]]
    first_gpu: Device | None
    _runnable: Mapping[int, Runnable]

    def runnable(self, line: KernelCallLine) -> Runnable:
        """Return the kernels that a call of this program may run, and what decides."""
        return self._runnable[id(line)]

    def tensor_type(self, name: str) -> TensorType:
        """Return the type of a value that a verified program uses as a tensor."""
        type = self.types[name]
        assert isinstance(type, TensorType), name
        return type


def program_facts(program: Program) -> ProgramFacts:
    """Return the facts of a verified program; reads each line once or twice."""
    definitions = {line.name: line for line in program.definitions}
    types = value_types(program)
    kinds = {line.symbol: line.kind for line in program.symbols}
    kernel_devices: dict[str, set[str]] = {}
    runnable: dict[int, Runnable] = {}
    first_gpu: Device | None = None
    for line in walk_lines(program.lines):
        if first_gpu is None:
            first_gpu = _named_gpu(line)
        if isinstance(line, KernelCallLine):
            found = runnable[id(line)] = runnable_kernels(definitions, line, types)
            for candidate in found.kernels.values():
                kernel_devices.setdefault(candidate.kernel.name, set()).add(
                    line.device.kind
                )
        elif isinstance(line, SymbolDefinitionLine):
            kinds[line.symbol] = line.kind
    return ProgramFacts(
        program=program,
        definitions=definitions,
        constants=frozenset(constant.name for constant in program.constants),
        types=types,
        kinds=NumberKinds(kinds),
        kernel_devices={name: frozenset(kinds) for name, kinds in kernel_devices.items()},
        first_gpu=first_gpu,
        runnable=runnable,
    )


def _named_gpu(line: BodyLine) -> Device | None:
    """Return the CUDA device with an index that a line allocates on or runs on."""
    if isinstance(line, KernelCallLine | ExternKernelLine):
        device = line.device
    elif isinstance(line, AllocateLine | AllocatePoolLine):
        device = line.type.device
    else:
        return None
    return device if device.kind == "cuda" and device.index is not None else None
