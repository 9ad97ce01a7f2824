"""Replace copies of buffers that nothing needs any more by the buffers themselves."""

from wrapperir import ir as wir
from wrapperir.analysis import Body, rewrite_bodies
from wrapperir.ir.line_effects import LineEffects
from wrapperir.passes.given_memory import GivenMemory

_COPY = "aten.clone.default"


def remove_copies(program: wir.Program) -> wir.Program:
    """Return the program without copies of buffers that end with the copy.

    Before::

        program @main(%x: f32[8, 8]) {
          %buf0 = allocate f32[8, 8]
          extern_kernel aten.mm.out(%x, %x, out = %buf0) writes(%buf0)
          %buf1 = extern_kernel aten.clone.default(%buf0) : f32[8, 8]
          free %buf0
          extern_kernel aten.relu_.default(%buf1) writes(%buf1)
          return %buf1
        }

    After::

        program @main(%x: f32[8, 8]) {
          %buf0 = allocate f32[8, 8]
          extern_kernel aten.mm.out(%x, %x, out = %buf0) writes(%buf0)
          %buf1 = reuse %buf0 as f32[8, 8]
          extern_kernel aten.relu_.default(%buf1) writes(%buf1)
          return %buf1
        }

    PyTorch's functional forms of operators that write copy what they write, such as
    ``all_reduce``.  The buffer is one of the block, or a dense donated input, that no later
    line uses, of the copy's type.  On several streams all earlier uses must be ordered
    before the copy.
    """
    effects = LineEffects.of_program(program)
    return rewrite_bodies(program, lambda body: _without_copies(body, effects))


def _without_copies(body: Body, effects: LineEffects) -> list[wir.BodyLine]:
    """Return the lines of a body without copies that are not needed."""
    copies = [index for index, line in enumerate(body.lines) if _is_copy(line)]
    if not copies:
        return list(body.lines)
    given = GivenMemory.of(body, effects)
    reuses: dict[int, wir.BodyLine] = {}
    gone: set[int] = set()
    for index in copies:
        copy = body.lines[index]
        assert isinstance(copy, wir.ExternKernelLine)
        source, type = given.found.effects[index].uses[0], copy.type
        if isinstance(type, wir.TensorType) and given.of_argument(
            source, type, index, copy, making=reuses
        ):
            reuses[index] = wir.ReuseLine(
                result=str(copy.result),
                source=source,
                type=type,
                provenance=copy.provenance,
            )
            gone.add(given.names.freed[source])
    return [
        reuses.get(index, line)
        for index, line in enumerate(body.lines)
        if index not in gone
    ]


def _is_copy(line: wir.BodyLine) -> bool:
    """Say whether a line copies a value in the same layout, and does nothing else."""
    return (
        isinstance(line, wir.ExternKernelLine)
        and line.operator == _COPY
        and line.result is not None
        and [*map(type, line.arguments)] == [wir.BufferRef]
        and not line.keywords
        and not line.writes
        and not line.aliases
    )
