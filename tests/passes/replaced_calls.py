"""Checks of passes that launch kernels of their own in place of operators."""

from collections.abc import Callable

from wrapperir import ir as wir
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify


def is_replaced(replace: Callable[[wir.Program], wir.Program], text: str) -> bool:
    """Return whether a pass replaces the only call of a program by a launch.

    Check that both programs are valid, and that the pass has nothing left to do.
    """
    program = parse_program(text)
    assert verify(program) == ()
    after = replace(program)
    assert verify(after) == ()
    assert replace(after) == after
    kinds = [type(line) for line in after.lines]
    assert (wir.KernelCallLine in kinds) == (wir.ExternKernelLine not in kinds)
    assert (after == program) == (wir.ExternKernelLine in kinds)
    return after != program


def check_shared(program: wir.Program, kernel: str) -> None:
    """Check that two launches share the one kernel of a program."""
    assert [line.name for line in program.definitions] == [kernel]
    assert sum(isinstance(line, wir.KernelCallLine) for line in program.lines) == 2


def on_cpu(program: wir.Program) -> wir.Program:
    """Return a program for the first GPU as one for the CPU, for the interpreter."""
    return parse_program(format_program(program).replace("@cuda:0", ""))
