"""Which names a line touches the bytes of, and how."""

from collections.abc import Iterator, Mapping

from attrs import define, field

from wrapperir.ir.effects import uses
from wrapperir.ir.kernel import (
    Access,
    RuntimeParameter,
    TensorParameter,
    runtime_parameters,
)
from wrapperir.ir.line import (
    AssertNotNanLine,
    BodyLine,
    BufferRef,
    ConditionalLine,
    DefinitionLine,
    ExternKernelLine,
    ItemOf,
    KernelCallLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WhileLoopLine,
)
from wrapperir.ir.types import Device


@define
class Accesses:
    """Says what lines touch; kernels are known by their definitions."""

    definitions: Mapping[str, DefinitionLine]
    _writes: dict[str, tuple[bool, ...]] = field(factory=dict[str, tuple[bool, ...]])

    def of(self, line: BodyLine) -> Iterator[tuple[str, bool, Device | None, int | None]]:
        """Yield the names that a line touches: whether it writes, device, stream."""
        match line:
            case KernelCallLine():
                for argument, writes in zip(
                    line.arguments, self._parameter_writes(line.kernel), strict=False
                ):
                    if isinstance(argument, BufferRef):
                        yield argument.name, writes, line.device, line.stream
            case ExternKernelLine():
                written = frozenset(line.writes)
                for name in dict.fromkeys(uses(line)):
                    yield name, name in written, line.device, line.stream
            case ConditionalLine() | WhileLoopLine() | SubgraphCallLine():
                for name in dict.fromkeys(uses(line)):
                    yield name, True, None, 0
                if isinstance(line, ConditionalLine) and isinstance(
                    line.predicate, BufferRef
                ):
                    yield line.predicate.name, False, None, None
            case SymbolDefinitionLine(source=ItemOf(buffer=name)):
                yield name, False, None, None
            case AssertNotNanLine():
                yield line.buffer, False, None, None
            case _:
                pass

    def _parameter_writes(self, kernel: str) -> tuple[bool, ...]:
        known = self._writes.get(kernel)
        if known is None:
            definition = self.definitions.get(kernel)
            parameters = () if definition is None else definition.parameters
            known = tuple(_is_written(p) for p in runtime_parameters(parameters))
            self._writes[kernel] = known
        return known


def _is_written(parameter: RuntimeParameter) -> bool:
    return isinstance(parameter, TensorParameter) and parameter.access is not Access.READ
