"""A fluent builder of programs."""

from collections.abc import Hashable, Mapping, Sequence

from attrs import evolve

from wrapperir.ir.arguments import SymbolKind, SymbolSource
from wrapperir.ir.block_builder import BlockBuilder
from wrapperir.ir.collective import ProcessGroup
from wrapperir.ir.definition import DefinitionLine, KernelDefinitionLine, MultiKernelLine
from wrapperir.ir.expr import Expr, Symbol
from wrapperir.ir.kernel import ZeroMode
from wrapperir.ir.line import SymbolDefinitionLine
from wrapperir.ir.multi_kernel_builder import identity, multi_kernel_line
from wrapperir.ir.names import FreshNames
from wrapperir.ir.operands import KernelOperand, NamedValue, Operand, as_argument
from wrapperir.ir.program import ConstantInput, Input, Program
from wrapperir.ir.provenance import NodeOrigin, Provenance, SourcePlace
from wrapperir.ir.selection import FirstChoice, Selection
from wrapperir.ir.types import TensorType, ValueType

__all__ = [
    "BlockBuilder",
    "KernelOperand",
    "NamedValue",
    "Operand",
    "ProgramBuilder",
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
        super().__init__(FreshNames())
        self._name = name
        self._inputs: list[Input] = []
        self._symbols: list[SymbolDefinitionLine] = []
        self._constants: list[ConstantInput] = []
        self._groups: list[ProcessGroup] = []
        self._definitions: list[DefinitionLine] = []
        self._origins: list[NodeOrigin] = []
        self._places: dict[SourcePlace, int] = {}
        self._multi_kernels: dict[Hashable, list[MultiKernelLine]] = {}

    def input(
        self,
        type: ValueType,
        *,
        name: str | None = None,
        mutated: bool = False,
        donated: bool = False,
        path: str | None = None,
    ) -> NamedValue:
        """Add an input; ``path`` is the one of a parameter in the user's model."""
        value = NamedValue(self._names.new(name, "arg"), type)
        self._inputs.append(
            Input(name=value.name, type=type, mutated=mutated, donated=donated, path=path)
        )
        return value

    def constant(
        self, type: TensorType, key: str, *, name: str | None = None, mutated: bool = False
    ) -> NamedValue:
        """Add a parameter or constant kept outside the program under ``key``."""
        value = NamedValue(self._names.new(name, "constant"), type)
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

    def origin(
        self,
        name: str,
        *,
        operator: str | None = None,
        module: str | None = None,
        stack: Sequence[tuple[str, int, str | None]] = (),
    ) -> Provenance:
        """List an origin, and return the provenance of lines that came from it.

        ``stack`` has the file, line and function of each place, the outermost first.
        """
        caller: int | None = None
        for file, line, function in stack:
            place = SourcePlace(file=file, line=line, function=function, caller=caller)
            caller = self._places.setdefault(place, len(self._places))
        self._origins.append(
            NodeOrigin(name=name, operator=operator, module=module, place=caller)
        )
        return Provenance(origins=(name,))

    def process_group(self, name: str, size: int, rank: int | None = None) -> str:
        """Declare a group of processes, and return its name."""
        self._groups.append(ProcessGroup(name=name, size=size, rank=rank))
        return name

    def kernel(self, definition: KernelDefinitionLine) -> KernelDefinitionLine:
        """Add a kernel definition."""
        self._definitions.append(definition)
        return definition

    def multi_kernel(
        self,
        kernels: Sequence[KernelDefinitionLine],
        *,
        name: str | None = None,
        positions: Sequence[Sequence[int]] | None = None,
        sizes: Mapping[str, tuple[str, int]] | None = None,
        workspaces: Mapping[str, Mapping[str, tuple[Expr, ZeroMode]]] | None = None,
        selection: Selection | None = None,
    ) -> MultiKernelLine:
        """Add a multi-kernel of these kernels, or return an equal one that was added.

        Args:
            kernels: The choices.
            name: The name; generated where it is ``None``.
            positions: For each kernel, the positions of its runtime parameters among
                those of the multi-kernel.  By default parameters of one name are one.
            sizes: The tensor parameter and dimension of each size that ``selection`` uses.
            workspaces: By kernel and parameter, the elements that the kernel needs, over
                scalar parameters and sizes, and their zero mode.
            selection: The selection policy; the first choice by default.

        An equal multi-kernel has the same parameters, sizes, choices in any order and
        selection; a given ``name`` must be equal, too.

        Raises:
            ValueError: kernels disagree about a parameter or a workspace, or do not have
                a given name.
        """
        line = multi_kernel_line(
            kernels,
            name=name or "",
            positions=positions,
            sizes=sizes or {},
            workspaces=workspaces or {},
            selection=selection or FirstChoice(),
        )
        alike = self._multi_kernels.setdefault(identity(line), [])
        for known in alike:
            if name is None or known.name == name:
                return known
        line = evolve(line, name=self._names.new(name, "multi_kernel_"))
        alike.append(line)
        self._definitions.append(line)
        return line

    def build(self, *outputs: Operand) -> Program:
        """Return the program with these outputs."""
        return Program(
            name=self._name,
            inputs=tuple(self._inputs),
            symbols=tuple(self._symbols),
            constants=tuple(self._constants),
            groups=tuple(self._groups),
            definitions=tuple(self._definitions),
            lines=tuple(self._lines),
            outputs=tuple(as_argument(output) for output in outputs),
            places=tuple(self._places),
            origins=tuple(self._origins),
        )
