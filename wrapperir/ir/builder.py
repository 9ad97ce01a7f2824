"""A fluent builder of programs."""

from collections.abc import Sequence

from wrapperir.ir.block_builder import BlockBuilder
from wrapperir.ir.expr import Symbol
from wrapperir.ir.fresh_names import Names
from wrapperir.ir.kernel import KernelChoice, runtime_parameters
from wrapperir.ir.line import (
    DefinitionLine,
    KernelDefinitionLine,
    MultiKernelLine,
    SymbolDefinitionLine,
    SymbolKind,
    SymbolSource,
)
from wrapperir.ir.operands import KernelOperand, Operand, Value, as_argument
from wrapperir.ir.program import ConstantInput, Input, Program
from wrapperir.ir.selection import FirstChoice, Selection
from wrapperir.ir.types import TensorType, ValueType

__all__ = [
    "BlockBuilder",
    "KernelOperand",
    "Operand",
    "ProgramBuilder",
    "Value",
    "as_argument",
]


class ProgramBuilder(BlockBuilder):
    """Builds a program.

    Example::

        b = ProgramBuilder("main")
        x = b.input(tensor("f32", (8, 64)), name="x")
        y = b.extern("aten.relu.default", x, type=tensor("f32", (8, 64)))
        program = b.build(y)
    """

    def __init__(self, name: str = "main") -> None:
        """Start a program with no inputs and no lines."""
        super().__init__(Names())
        self._name = name
        self._inputs: list[Input] = []
        self._symbols: list[SymbolDefinitionLine] = []
        self._constants: list[ConstantInput] = []
        self._definitions: list[DefinitionLine] = []

    def input(
        self, type: ValueType, *, name: str | None = None, mutated: bool = False
    ) -> Value:
        """Add an input."""
        value = Value(self._names.new(name, "arg"), type)
        self._inputs.append(Input(name=value.name, type=type, mutated=mutated))
        return value

    def constant(
        self, type: TensorType, key: str, *, name: str | None = None, mutated: bool = False
    ) -> Value:
        """Add a parameter or constant kept outside the program under ``key``."""
        value = Value(self._names.new(name, "constant"), type)
        self._constants.append(
            ConstantInput(name=value.name, type=type, key=key, mutated=mutated)
        )
        return value

    def symbol(
        self,
        name: str,
        source: SymbolSource,
        *,
        kind: SymbolKind = SymbolKind.INT,
        lower: int | None = None,
        upper: int | None = None,
    ) -> Symbol:
        """Add a symbol known on entry, such as the size of an input."""
        self._symbols.append(
            SymbolDefinitionLine(
                symbol=name, kind=kind, lower=lower, upper=upper, source=source
            )
        )
        return Symbol(name)

    def kernel(self, definition: KernelDefinitionLine) -> KernelDefinitionLine:
        """Add a kernel definition."""
        self._definitions.append(definition)
        return definition

    def multi_kernel(
        self,
        kernels: Sequence[KernelDefinitionLine],
        *,
        name: str | None = None,
        selection: Selection | None = None,
    ) -> MultiKernelLine:
        """Add a multi-kernel whose choices take all its arguments, in the same order."""
        parameters = runtime_parameters(kernels[0].parameters)
        positions = tuple(range(len(parameters)))
        line = MultiKernelLine(
            name=self._names.new(name, "multi_kernel_"),
            parameters=parameters,
            choices=tuple(KernelChoice(k.name, positions) for k in kernels),
            selection=selection or FirstChoice(),
        )
        self._definitions.append(line)
        return line

    def build(self, *outputs: Operand) -> Program:
        """Return the program with these outputs."""
        return Program(
            name=self._name,
            inputs=tuple(self._inputs),
            symbols=tuple(self._symbols),
            constants=tuple(self._constants),
            definitions=tuple(self._definitions),
            lines=tuple(self._lines),
            outputs=tuple(as_argument(output) for output in outputs),
        )
