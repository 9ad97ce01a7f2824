"""Faults of memory: lifetimes, views, reuses and forbidden writes."""

import random

from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    AllocateLine,
    AssertNotNanLine,
    BufferRef,
    ConstantInput,
    DType,
    ExternKernelLine,
    FreeLine,
    Input,
    Program,
    ReinterpretLine,
    ReuseLine,
    TensorType,
    tensor,
)
from wrapperir.ir.effects import LineEffects, Origin, uses
from wrapperir.testing.injection import (
    Faulty,
    at_line,
    choose,
    definition_places,
    places_of,
    with_lines,
)


def drop_free(program: Program, rng: random.Random) -> Faulty | None:
    """Drop a ``free``, so that its name leaks."""
    defined = definition_places(program)
    places = (
        (i, line) for i, line in places_of(program, FreeLine) if line.buffer in defined
    )
    found = choose(places, rng)
    if found is None:
        return None
    index, line = found
    return at_line(with_lines(program, index), Code.LEAK, defined[line.buffer])


def double_free(program: Program, rng: random.Random) -> Faulty | None:
    """Free a name twice."""
    found = choose(places_of(program, FreeLine), rng)
    if found is None:
        return None
    index, line = found
    return at_line(with_lines(program, index, line, line), Code.DOUBLE_FREE, index + 1)


def use_after_free(program: Program, rng: random.Random) -> Faulty | None:
    """Use a name after it was freed."""
    found = choose(places_of(program, FreeLine), rng)
    if found is None:
        return None
    index, line = found
    use = AssertNotNanLine(buffer=line.buffer)
    return at_line(with_lines(program, index, line, use), Code.USE_AFTER_FREE, index + 1)


def return_after_free(program: Program, rng: random.Random) -> Faulty | None:
    """Return a name that was freed."""
    found = choose(places_of(program, FreeLine), rng)
    if found is None:
        return None
    outputs = (*program.outputs, BufferRef(found[1].buffer))
    path = ("outputs", len(program.outputs))
    return Faulty(evolve(program, outputs=outputs), Code.USE_AFTER_FREE, path)


def free_constant(program: Program, rng: random.Random) -> Faulty | None:
    """Free a constant."""
    constant = choose(iter(program.constants), rng)
    if constant is None:
        return None
    line = FreeLine(buffer=constant.name)
    return at_line(with_lines(program, 0, line, replacing=0), Code.CONSTANT_FREED, 0)


def drop_allocation(program: Program, rng: random.Random) -> Faulty | None:
    """Drop an allocation that is used."""
    found = choose(places_of(program, AllocateLine), rng)
    if found is None:
        return None
    index, line = found
    for later, user in enumerate(program.lines[index + 1 :], index):
        if line.result in uses(user):
            return at_line(with_lines(program, index), Code.UNDEFINED_NAME, later)
    return None


_REPEATABLE = (Origin.ALLOCATED, Origin.VIEW, Origin.ELEMENT)
"""Definitions whose only fault, where the line is repeated, is the name."""


def duplicate_definition(program: Program, rng: random.Random) -> Faulty | None:
    """Define a name twice."""
    effects = LineEffects.of_program(program)
    places = (
        (index, line)
        for index, line in enumerate(program.lines)
        if any(made.origin in _REPEATABLE for made in effects.visit(line).definitions)
    )
    found = choose(places, rng)
    if found is None:
        return None
    index, line = found
    return at_line(with_lines(program, index, line, line), Code.REDEFINITION, index + 1)


def incompatible_reuse(program: Program, rng: random.Random) -> Faulty | None:
    """Reuse memory as if it were aligned to a page."""
    found = choose(places_of(program, ReuseLine), rng)
    if found is None:
        return None
    index, line = found
    changed = evolve(line, type=evolve(line.type, alignment=4096))
    return at_line(with_lines(program, index, changed), Code.REUSE_INCOMPATIBLE, index)


def shrink_buffer(program: Program, rng: random.Random) -> Faulty | None:
    """Make a buffer one byte long, where its memory is given to a larger one."""
    needed = {
        line.source: (index, line)
        for index, line in enumerate(program.lines)
        if isinstance(line, ReuseLine | ReinterpretLine) and _is_large(line.type)
    }
    places = ((i, ln) for i, ln in places_of(program, AllocateLine) if ln.result in needed)
    found = choose(places, rng)
    if found is None:
        return None
    index, line = found
    later, user = needed[line.result]
    code = Code.REUSE_TOO_SMALL if isinstance(user, ReuseLine) else Code.OUT_OF_BOUNDS
    small = evolve(tensor(DType.I8, (1,)), alignment=line.type.alignment)
    return at_line(with_lines(program, index, evolve(line, type=small)), code, later)


def _is_large(type: TensorType) -> bool:
    return type.dtype.itemsize > 1


def view_out_of_bounds(program: Program, rng: random.Random) -> Faulty | None:
    """Add a view far beyond a buffer."""
    found = choose(places_of(program, AllocateLine), rng)
    if found is None:
        return None
    index, line = found
    view = ReinterpretLine(
        result="far_view",
        source=line.result,
        type=evolve(line.type, size=(4,), stride=(1,), offset=1 << 20),
    )
    changed = with_lines(program, index, line, view, FreeLine(buffer="far_view"))
    return at_line(changed, Code.OUT_OF_BOUNDS, index + 1)


def wrong_rank(program: Program, rng: random.Random) -> Faulty | None:
    """Give an allocation one stride too many."""
    found = choose(places_of(program, AllocateLine), rng)
    if found is None:
        return None
    index, line = found
    changed = evolve(line, type=evolve(line.type, stride=(*line.type.stride, 1)))
    return at_line(with_lines(program, index, changed), Code.RANK_MISMATCH, index)


def forbidden_write(program: Program, rng: random.Random) -> Faulty | None:
    """Write an input or constant that is not mutated."""
    borrowed: list[Input | ConstantInput] = [*program.inputs, *program.constants]
    names = [b.name for b in borrowed if isinstance(b.type, TensorType) and not b.mutated]
    name = choose(iter(names), rng)
    if name is None:
        return None
    line = ExternKernelLine(
        operator="aten.zero_.default", arguments=(BufferRef(name),), writes=(name,)
    )
    return at_line(with_lines(program, 0, line, replacing=0), Code.FORBIDDEN_WRITE, 0)
