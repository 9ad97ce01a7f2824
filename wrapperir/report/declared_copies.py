"""The copies that kernels say that they make, at their calls."""

from attrs import frozen

from wrapperir.ir import (
    BodyLine,
    BufferRef,
    KernelCallLine,
    KernelCopy,
    KernelDefinitionLine,
    Program,
    runtime_parameters,
)


@frozen
class DeclaredCopy:
    """A kernel's copy at a call: the values that it is from and to."""

    target: str
    source: str
    made: KernelCopy


class DeclaredCopies:
    """The copies of the kernels of a program."""

    def __init__(self, program: Program) -> None:
        """Find what definitions say."""
        self._kernels = {
            line.name: (runtime_parameters(line.parameters), line.copies)
            for line in program.definitions
            if isinstance(line, KernelDefinitionLine) and line.copies
        }

    def of(self, line: BodyLine) -> tuple[DeclaredCopy, ...]:
        """Return the copies that a line makes."""
        if not isinstance(line, KernelCallLine) or line.kernel not in self._kernels:
            return ()
        parameters, copies = self._kernels[line.kernel]
        values = {
            parameter.name: argument.name
            for parameter, argument in zip(parameters, line.arguments, strict=True)
            if isinstance(argument, BufferRef)
        }
        return tuple(
            DeclaredCopy(values[copy.target], values[copy.source], copy)
            for copy in copies
            if copy.target in values and copy.source in values
        )
