"""Reads and writes of operator calls that the interpreter checks."""

from typing import TYPE_CHECKING

from wrapperir.ir import ExternKernelLine
from wrapperir.ir.mentions import buffers_in
from wrapperir.ir.storage_operators import reads_elements
from wrapperir.operators import given_arguments, schema_of

if TYPE_CHECKING:
    from wrapperir.operators.schema import Operator


def names_read(line: ExternKernelLine) -> tuple[str, ...]:
    """Return the names whose bytes the call surely reads.

    Names it also writes may be written only (``out``), names its result may alias may
    be viewed only, and some operators look at sizes alone.
    """
    if not reads_elements(line.operator):
        return ()
    spared = {*line.writes, *line.aliases}
    values = (*line.arguments, *(value for _, value in line.keywords))
    names = (name for value in values for name in buffers_in(value))
    return tuple(dict.fromkeys(name for name in names if name not in spared))


def undeclared_writes(line: ExternKernelLine, operator: "Operator") -> tuple[str, ...]:
    """Return the arguments that the schema says are written and ``writes`` lacks."""
    given = given_arguments(schema_of(operator), line.arguments, dict(line.keywords))
    return tuple(
        name
        for parameter, argument in given
        if parameter.is_written
        for name in buffers_in(argument)
        if name not in line.writes
    )
