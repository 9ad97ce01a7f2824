"""What has to be known of a whole program before its first line is written."""

from collections.abc import Mapping

from attrs import define, field

from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.emit.runnable_kernels import runnable_kernels, value_types
from wrapperir.emit.stream_survey import StreamSurvey
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    DefinitionLine,
    ExternKernelLine,
    KernelCallLine,
    SymbolDefinitionLine,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import Device, ValueType
from wrapperir_python.pool_survey import PoolSurvey, PoolUse


@define
class Survey:
    """Facts of a program.

    ``types`` are those of its values.  ``kernel_devices`` has the kinds of device that each
    kernel may be called on; kernels that no call runs are not in it.  ``device`` is the
    first CUDA device with an index: the one that is made current for the whole call.
    ``kinds`` has what each symbol is, ``pools`` how each allocated pool is used,
    ``streams`` what runs beside stream 0.
    """

    definitions: Mapping[str, DefinitionLine]
    constants: frozenset[str]
    types: Mapping[str, ValueType] = field(factory=dict[str, ValueType])
    device: Device | None = None
    kinds: NumberKinds = field(factory=NumberKinds)
    kernel_devices: dict[str, set[str]] = field(factory=dict[str, set[str]])
    pools: Mapping[str, PoolUse] = field(factory=dict[str, PoolUse])
    streams: StreamSurvey = field(factory=StreamSurvey)


def survey_program(program: Program) -> Survey:
    """Return the facts of ``program``; one look at each line, nested ones included."""
    survey = Survey(
        {definition.name: definition for definition in program.definitions},
        frozenset(constant.name for constant in program.constants),
        value_types(program),
    )
    for symbol in program.symbols:
        survey.kinds.symbols[symbol.symbol] = symbol.kind
    pools = PoolSurvey()
    survey.pools = pools.uses
    for line in walk_lines(program.lines):
        pools.note(line)
        survey.streams.note(line)
        match line:
            case KernelCallLine():
                runnable = runnable_kernels(survey.definitions, line, survey.types)
                for candidate in runnable.kernels.values():
                    name = candidate.kernel.name
                    devices = survey.kernel_devices.setdefault(name, set())
                    devices.add(line.device.kind)
                device = line.device
            case AllocateLine() | AllocatePoolLine():
                device = line.type.device
            case ExternKernelLine():
                device = line.device
            case SymbolDefinitionLine():
                survey.kinds.symbols[line.symbol] = line.kind
                continue
            case _:
                continue
        if survey.device is None and device.kind == "cuda" and device.index is not None:
            survey.device = device
    return survey
