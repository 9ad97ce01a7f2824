"""A conformance kit: an emitter's programs behave as in the interpreter.

The author of an emitter runs every case in their own tests::

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_conformance(case: Case) -> None:
        check_case(MyEmitter(), case)
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from attrs import define, evolve, field

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Emitter, Loaded, Value, check_support
from wrapperir.emit.support import fit_program, on_host
from wrapperir.ir import BufferRef, Program
from wrapperir.testing.conformance_case import Case
from wrapperir.testing.conformance_cases import CASES
from wrapperir.testing.inputs import difference, example_constants
from wrapperir.testing.process_groups import has_groups, make_groups

if TYPE_CHECKING:
    from wrapperir.interp import Interpreter

__all__ = ["CASES", "Case", "ConformanceError", "Outcome", "check_case"]


class ConformanceError(AssertionError):
    """An emitter's program behaves differently from the interpreter."""


class Outcome(Enum):
    """How a case ended that did not fail."""

    PASSED = "passed"
    UNSUPPORTED = "unsupported"
    """The emitter declares that it lacks something that the case needs, or PyTorch does."""


def check_case(
    emitter: Emitter, case: Case, place: Callable[[Program], Program] | None = None
) -> Outcome:
    """Compile a case and run it beside the interpreter, three times for each of its seeds.

    Outputs, and inputs and constants that the program may mutate, must be equal bit for
    bit, with equal dtype, size and stride; other inputs and constants must not have
    changed, and the list of inputs must have been emptied.  Outputs of a run must be the
    same after the next, which is on other inputs.  A case that faults must raise an error
    in both.  This executes the case's kernels.

    ``place`` returns the program on another device, or with other kernels, as the emitter
    runs it.  Inputs and constants on ``hosted`` devices are tensors of the CPU.

    Raises:
        ConformanceError: something differs; the message says what.
        DiagnosticError: the emitter refuses a case that it declares to support.
    """
    from wrapperir.interp import Interpreter

    placed = case.program if place is None else place(case.program)
    program = fit_program(placed, emitter.support)
    if not has_groups(program):
        return Outcome.UNSUPPORTED
    make_groups(program)
    if check_support(program, emitter.name, emitter.support):
        return Outcome.UNSUPPORTED
    given = on_host(placed, emitter.support.hosted)
    artifact = emitter.emit(program)
    if emitter.emit(program) != artifact:
        raise ConformanceError(f"{case.name}: two emits of the program differ")
    for seed in case.seeds:
        constants = example_constants(given, seed)
        expected_constants = example_constants(case.program, seed)
        loaded = emitter.load(artifact, constants)
        # What a device runs may differ from what the CPU can: the reference is the latter.
        known = fit_program(case.program, emitter.support)
        interpreter = Interpreter(known, expected_constants)
        both = _Beside(case, placed, given, known, loaded, interpreter, seed)
        if case.faults:
            if not both.reference_faults():
                return Outcome.UNSUPPORTED  # what faults was replaced for the emitter
            both.check_fault()
            continue
        # Later runs start with the state after the earlier; the last has other inputs.
        for run, number in enumerate((seed, seed, seed + _OTHER_SEED)):
            both.check_run(run, number)
            for key, constant in constants.items():
                wanted = expected_constants[key]
                both.check_equal(f"run {run}: constant {key}", constant, wanted)
        both.check_kept()
    return Outcome.PASSED


_OTHER_SEED = 1000
"""Added to a seed for inputs that differ."""


@define
class _Beside:
    """A loaded program beside the interpreter, on the inputs of one seed.

    ``placed`` is the program on the emitter's device, ``given`` has the inputs that callers
    give it, and ``reference`` is interpreted.
    """

    case: Case
    placed: Program
    given: Program
    reference: Program
    loaded: Loaded
    interpreter: "Interpreter"
    seed: int
    outputs: list[tuple[Sequence[Value], Sequence[Value]]] = field(
        factory=list[tuple[Sequence[Value], Sequence[Value]]]
    )

    def check_run(self, run: int, seed: int) -> None:
        """Run both on the inputs of a seed, and compare outputs and inputs."""
        mine = self._inputs(seed)
        reference = self.case.inputs(self.case.program, seed)
        outputs = self.interpreter.run(list(reference))
        given = list(mine)
        returned = self.loaded(given)
        if given:
            raise self._error(f"run {run}: the list of inputs was not emptied")
        if len(returned) != len(outputs):
            raise self._error(f"run {run}: {len(returned)} outputs, not {len(outputs)}")
        for index, (got, wanted) in enumerate(zip(returned, outputs, strict=True)):
            self.check_equal(f"run {run}: output {index}", got, wanted)
        inputs = self.case.program.inputs
        for item, got, wanted in zip(inputs, mine, reference, strict=True):
            if not item.donated:
                self.check_equal(f"run {run}: input %{item.name} afterwards", got, wanted)
        self.outputs.append((returned, outputs))

    def _inputs(self, seed: int) -> "list[Value]":
        """Return the inputs of the placed program, which are those of the case.

        Those that stayed where they are are drawn for the case: what the placed program
        reads of them may be read of copies, and would be drawn otherwise.
        """
        types = ([item.type for item in p.inputs] for p in (self.given, self.case.program))
        stays = next(types) == next(types)
        return self.case.inputs(self.case.program if stays else self.given, seed)

    @property
    def _is_moved(self) -> bool:
        """Whether the placed program differs in more than its kernels."""
        kernels = self.case.program.definitions
        return evolve(self.placed, definitions=kernels) != self.case.program

    def check_kept(self) -> None:
        """Compare the outputs of all runs again: a later run must not change them.

        Inputs and constants that are outputs are left out on a device: it may have copies.
        """
        changing: set[str] = set()
        if self._is_moved:
            changing.update(item.name for item in self.case.program.inputs)
            changing.update(item.name for item in self.case.program.constants)
        kept = [
            not (isinstance(output, BufferRef) and output.name in changing)
            for output in self.case.program.outputs
        ]
        for run, (returned, outputs) in enumerate(self.outputs):
            for index, (got, wanted) in enumerate(zip(returned, outputs, strict=True)):
                where = f"run {run}: output {index}, after the next run,"
                if kept[index]:
                    self.check_equal(where, got, wanted)

    def reference_faults(self) -> bool:
        """Run the interpreter, and return whether it faults.

        Raises:
            ConformanceError: it does not, on the program as the case has it.
        """
        try:
            self.interpreter.run(self.case.inputs(self.case.program, self.seed))
        except DiagnosticError:
            return True
        if self.reference == self.case.program:
            raise self._error("the interpreter does not fault")
        return False

    def check_fault(self) -> None:
        """Run the loaded program, which must raise an error."""
        try:
            self.loaded(self._inputs(self.seed))
        except Exception:  # which error it is, is the emitter's own
            return
        raise self._error("no error was raised")

    def check_equal(self, where: str, got: Value, wanted: Value) -> None:
        """Compare two values, on any device if the program was placed on another."""
        found = difference(got, wanted, any_device=self._is_moved)
        if found is not None:
            raise self._error(f"{where} {found}")

    def _error(self, message: str) -> ConformanceError:
        return ConformanceError(f"{self.case.name}, seed {self.seed}, {message}")
