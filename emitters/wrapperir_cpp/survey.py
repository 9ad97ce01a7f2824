"""What has to be known of a whole program before its first line is written."""

from collections.abc import Mapping

from attrs import define, field

from wrapperir.emit.walking import chosen_kernel, walk_lines
from wrapperir.ir.line import (
    DefinitionLine,
    KernelCallLine,
    SymbolDefinitionLine,
    SymbolKind,
)
from wrapperir.ir.program import Program
from wrapperir_cpp.cuda_survey import CudaSurvey, survey_cuda
from wrapperir_cpp.kernel_arguments import ArgumentFacts, survey_arguments
from wrapperir_cpp.tensor_layouts import TensorLayouts, survey_layouts


@define
class Survey:
    """Facts of a program.

    ``kernel_devices`` has the kinds of device that each kernel is called on; kernels
    that are never called are not in it.  ``symbols`` has the kind of every symbol.
    ``layouts`` says how tensors lie in memory, ``arguments`` what all calls of a kernel
    share, ``cuda`` what is used of GPUs.
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

    def symbols_of(self, kind: SymbolKind) -> frozenset[str]:
        """Return the symbols of a kind."""
        return frozenset(name for name, own in self.symbols.items() if own is kind)


def survey_program(program: Program) -> Survey:
    """Return the facts of ``program``; one look at each line, nested ones included."""
    survey = Survey(
        {definition.name: definition for definition in program.definitions},
        frozenset(constant.name for constant in program.constants),
        layouts=survey_layouts(program),
        arguments=survey_arguments(program),
        cuda=survey_cuda(program),
    )
    for line in (*program.symbols, *walk_lines(program.lines)):
        if isinstance(line, SymbolDefinitionLine):
            survey.symbols[line.symbol] = line.kind
        elif isinstance(line, KernelCallLine):
            kernel, _ = chosen_kernel(survey.definitions, line.kernel)
            devices = survey.kernel_devices.setdefault(kernel.name, set())
            devices.add(line.device.kind)
    return survey
