"""Faults of memory: lifetimes, views, reuses and forbidden writes."""

from random import Random

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.ir.effects import Origin
from wrapperir.ir.line_effects import LineEffects, definitions, uses
from wrapperir.testing.injection import (
    Faulty,
    Injector,
    NoPlaceError,
    at_line,
    choose,
    line_fault,
    places_of,
    with_lines,
)

double_free = line_fault(wir.FreeLine, Code.DOUBLE_FREE, lambda line, _: (line, line), at=1)
"""Free a name twice."""

use_after_free = line_fault(
    wir.FreeLine,
    Code.USE_AFTER_FREE,
    lambda line, _: (line, wir.AssertNotNanLine(buffer=line.buffer)),
    at=1,
)
"""Use a name after it was freed."""

incompatible_reuse = line_fault(
    wir.ReuseLine,
    Code.REUSE_INCOMPATIBLE,
    lambda line, _: [evolve(line, type=evolve(line.type, alignment=4096))],
)
"""Reuse memory as if it were aligned to a page."""

wrong_rank = line_fault(
    wir.AllocateLine,
    Code.RANK_MISMATCH,
    lambda line, _: [evolve(line, type=evolve(line.type, stride=(*line.type.stride, 1)))],
)
"""Give an allocation one stride too many."""

view_out_of_bounds = line_fault(
    wir.AllocateLine,
    Code.OUT_OF_BOUNDS,
    lambda line, _: (
        line,
        wir.ReinterpretLine(
            result="far_view",
            source=line.result,
            type=evolve(line.type, size=(4,), stride=(1,), offset=1 << 20),
        ),
        wir.FreeLine(buffer="far_view"),
    ),
    at=1,
)
"""Add a view far beyond a buffer."""


@Injector
def drop_free(program: wir.Program, rng: Random) -> Faulty:
    """Drop a ``free``, so that its name leaks."""
    defined = {
        name: index
        for index, line in enumerate(program.lines)
        for name, _ in definitions(line)
    }
    frees = places_of(program, wir.FreeLine)
    index, line = choose(((i, ln) for i, ln in frees if ln.buffer in defined), rng)
    return at_line(with_lines(program, index), Code.LEAK, defined[line.buffer])


@Injector
def return_after_free(program: wir.Program, rng: Random) -> Faulty:
    """Return a name that was freed."""
    _, line = choose(places_of(program, wir.FreeLine), rng)
    outputs = (*program.outputs, wir.BufferRef(line.buffer))
    path = ("outputs", len(program.outputs))
    return Faulty(evolve(program, outputs=outputs), Code.USE_AFTER_FREE, path)


@Injector
def mutated_donation(program: wir.Program, rng: Random) -> Faulty:
    """Declare a mutated input donated."""
    inputs = list(program.inputs)
    index = choose((i for i, item in enumerate(inputs) if item.mutated), rng)
    inputs[index] = evolve(inputs[index], donated=True)
    path = ("inputs", index)
    return Faulty(evolve(program, inputs=tuple(inputs)), Code.INVALID_DONATION, path)


@Injector
def free_constant(program: wir.Program, rng: Random) -> Faulty:
    """Free a constant."""
    line = wir.FreeLine(buffer=choose(program.constants, rng).name)
    return at_line(with_lines(program, 0, line, replacing=0), Code.CONSTANT_FREED, 0)


@Injector
def drop_allocation(program: wir.Program, rng: Random) -> Faulty:
    """Drop an allocation that is used."""
    index, line = choose(places_of(program, wir.AllocateLine), rng)
    for later, user in enumerate(program.lines[index + 1 :], index):
        if line.result in uses(user):
            return at_line(with_lines(program, index), Code.UNDEFINED_NAME, later)
    raise NoPlaceError


_REPEATABLE = (Origin.ALLOCATED, Origin.VIEW, Origin.ELEMENT)
"""Definitions whose only fault, where the line is repeated, is the name."""


@Injector
def duplicate_definition(program: wir.Program, rng: Random) -> Faulty:
    """Define a name twice."""
    effects = LineEffects.of_program(program)
    places = (
        (index, line)
        for index, line in enumerate(program.lines)
        if any(made.origin in _REPEATABLE for made in effects.visit(line).definitions)
    )
    index, line = choose(places, rng)
    return at_line(with_lines(program, index, line, line), Code.REDEFINITION, index + 1)


@Injector
def shrink_buffer(program: wir.Program, rng: Random) -> Faulty:
    """Make a buffer one byte long, where its memory is given to a larger one."""
    needed = {
        line.source: (index, line)
        for index, line in enumerate(program.lines)
        if isinstance(line, wir.ReuseLine | wir.ReinterpretLine)
        and line.type.dtype.itemsize > 1
    }
    allocations = places_of(program, wir.AllocateLine)
    index, line = choose(((i, ln) for i, ln in allocations if ln.result in needed), rng)
    later, user = needed[line.result]
    code = Code.REUSE_TOO_SMALL if isinstance(user, wir.ReuseLine) else Code.OUT_OF_BOUNDS
    small = wir.tensor(wir.DType.I8, (1,), alignment=line.type.alignment)
    return at_line(with_lines(program, index, evolve(line, type=small)), code, later)


@Injector
def forbidden_write(program: wir.Program, rng: Random) -> Faulty:
    """Write an input or constant that is not mutated."""
    borrowed: list[wir.Input | wir.ConstantInput] = [*program.inputs, *program.constants]
    tensors = (item for item in borrowed if isinstance(item.type, wir.TensorType))
    own = {item.name for item in program.inputs if item.donated}
    read_only = (x.name for x in tensors if not x.mutated and x.name not in own)
    name = choose(read_only, rng)
    line = wir.ExternKernelLine(
        operator="aten.zero_.default", arguments=(wir.BufferRef(name),), writes=(name,)
    )
    return at_line(with_lines(program, 0, line, replacing=0), Code.FORBIDDEN_WRITE, 0)
