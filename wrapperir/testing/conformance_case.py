"""One program of the conformance kit, and the types that its programs share."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.ir import Program
from wrapperir.ir.builder import BlockBuilder, NamedValue, ProgramBuilder
from wrapperir.testing.inputs import SMALLEST_NUMBER, example_inputs
from wrapperir.testing.kernels import KernelKind, library_kernel

if TYPE_CHECKING:
    from wrapperir.emit import Value

MATRIX = wir.tensor("f32", (4, 8))
FLAT = wir.tensor("f32", (32,))
BOOL = wir.tensor("bool", ())
CELL = wir.tensor("i64", ())


@frozen
class Case:
    """A program, and the seeds of the inputs to run it on.

    ``faults`` says that running it must end in an error.  Elements of inputs are whole
    numbers from ``smallest`` to 3.
    """

    name: str
    program: Program
    seeds: tuple[int, ...] = (0, 1)
    faults: bool = False
    smallest: int = SMALLEST_NUMBER

    def inputs(self, program: Program, seed: int) -> "list[Value]":
        """Return the inputs of a seed for the program, or one made of it."""
        return example_inputs(program, seed, smallest=self.smallest)


def built(fill: Callable[[ProgramBuilder], Program], *seeds: int) -> Case:
    """Return the case of the program that a function builds, named as the function."""
    name = fill.__name__.removeprefix("_")
    return Case(name, fill(ProgramBuilder()), seeds or (0, 1))


class SmallKernels:
    """The kernels of one program, and the shortest ways to call them."""

    def __init__(self, builder: ProgramBuilder, language: wir.Language) -> None:
        self.subtract_kernel = builder.kernel(library_kernel(KernelKind.SUBTRACT, language))
        self.negate_kernel = builder.kernel(library_kernel(KernelKind.NEGATE, language))

    def subtract(
        self,
        block: BlockBuilder,
        left: NamedValue,
        right: NamedValue,
        out: NamedValue | None = None,
        *,
        count: wir.Expr = 32,
        stream: int = 0,
    ) -> NamedValue:
        """Add ``out = left - right`` of ``count`` elements, in a new matrix by default."""
        out = block.allocate(MATRIX) if out is None else out
        block.call(self.subtract_kernel, left, right, out, count, stream=stream)
        return out

    def negate(
        self,
        block: BlockBuilder,
        source: NamedValue,
        out: NamedValue | None = None,
        *,
        count: wir.Expr = 32,
        stream: int = 0,
    ) -> NamedValue:
        """Add ``out = -source`` of ``count`` elements, in a new matrix by default."""
        out = block.allocate(MATRIX) if out is None else out
        block.call(self.negate_kernel, source, out, count, stream=stream)
        return out
