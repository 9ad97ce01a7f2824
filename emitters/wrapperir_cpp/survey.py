"""What has to be known of a whole program before its first line is written."""

from collections.abc import Mapping

from attrs import define, field

from wrapperir.emit.runnable_kernels import runnable_kernels, value_types
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line import (
    DefinitionLine,
    KernelCallLine,
    SymbolDefinitionLine,
    SymbolKind,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import ValueType
from wrapperir_cpp.cuda_survey import CudaSurvey, survey_cuda
from wrapperir_cpp.kernel_arguments import ArgumentFacts, survey_arguments
from wrapperir_cpp.tensor_layouts import TensorLayouts, survey_layouts


@define
class Survey:
    """Facts of a program.

    ``kernel_devices`` has the kinds of device that each kernel may be called on; kernels
    that never are called are not in it.  ``symbols`` has the kind of every symbol.
    ``layouts`` says how tensors lie in memory, ``arguments`` what all calls of a kernel
    share, ``cuda`` what is used of GPUs, ``types`` what each value is.
    """

    definitions: Mapping[str, DefinitionLine]
    constants: frozenset[str]
    symbols: dict[str, SymbolKind] = field(factory=dict[str, SymbolKind])
    kernel_devices: dict[str, set[str]] = field(factory=dict[str, set[str]])
    arguments: Mapping[str, tuple[ArgumentFacts, ...]] = field(
        factory=dict[str, tuple[ArgumentFacts, ...]]
    )
    cuda: CudaSurvey = field(factory=CudaSurvey)
    layouts: TensorLayouts = field(factory=TensorLayouts)
    types: Mapping[str, ValueType] = field(factory=dict[str, ValueType])

    def symbols_of(self, kind: SymbolKind) -> frozenset[str]:
        """Return the symbols of a kind."""
        return frozenset(name for name, own in self.symbols.items() if own is kind)


def survey_program(program: Program) -> Survey:
    """Return the facts of ``program``; one look at each line, nested ones included."""
    types = value_types(program)
    survey = Survey(
        {definition.name: definition for definition in program.definitions},
        frozenset(constant.name for constant in program.constants),
        layouts=survey_layouts(program),
        arguments=survey_arguments(program),
        cuda=survey_cuda(program),
        types=types,
    )
    for line in (*program.symbols, *walk_lines(program.lines)):
        if isinstance(line, SymbolDefinitionLine):
            survey.symbols[line.symbol] = line.kind
        elif isinstance(line, KernelCallLine):
            runnable = runnable_kernels(survey.definitions, line, types)
            for candidate in runnable.kernels.values():
                name = candidate.kernel.name
                survey.kernel_devices.setdefault(name, set()).add(line.device.kind)
    return survey
