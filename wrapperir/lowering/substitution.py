"""Read and replace the names in the steps of a nest: values, axes and buffers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from wrapperir.ir import Expr, NodeOrigin, Operation, Symbol, symbols_in
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    Check,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Nest,
    Reduce,
    Scan,
    Step,
    Store,
)


def instructions(steps: Iterable[Step]) -> Iterator[Instruction]:
    """Yield the instructions of steps in order, those of inner loops included."""
    for step in steps:
        if isinstance(step, InnerLoop):
            yield from step.body
        else:
            yield step


def all_axes(axes: Iterable[Axis], steps: Iterable[Step]) -> Iterator[Axis]:
    """Yield a nest's parallel axes, then the axes of its inner loops."""
    yield from axes
    for step in steps:
        if isinstance(step, InnerLoop):
            yield from step.axes


def computed_origins(nest: Nest) -> tuple[NodeOrigin, ...]:
    """Return the nodes that the instructions of a nest are computed for."""
    found = (origin for step in instructions(nest.body) for origin in step.origins)
    return tuple(dict.fromkeys(found))


def map_steps(
    steps: Iterable[Step], change: Callable[[Instruction], Instruction]
) -> tuple[Step, ...]:
    """Return steps with each instruction changed, those of inner loops included."""
    return tuple(
        InnerLoop(axes=step.axes, body=tuple(map(change, step.body)))
        if isinstance(step, InnerLoop)
        else change(step)
        for step in steps
    )


def results(instruction: Instruction) -> tuple[str, ...]:
    """Return the names of the values that an instruction defines."""
    match instruction:
        case Literal() | IndexValue() | Load() | Apply():
            return (instruction.result,)
        case Reduce() | Scan():
            return instruction.results
        case Store() | Check():
            return ()


def operands(instruction: Instruction) -> tuple[str, ...]:
    """Return the names of the values that an instruction uses, but in indices."""
    match instruction:
        case Literal() | IndexValue():
            return ()
        case Load():
            return () if instruction.mask is None else (instruction.mask,)
        case Apply() | Reduce() | Scan():
            return instruction.operands
        case Store():
            mask = () if instruction.mask is None else (instruction.mask,)
            return (instruction.value, *mask)
        case Check():
            mask = () if instruction.mask is None else (instruction.mask,)
            return (instruction.condition, *mask)


def index_of(instruction: Instruction) -> tuple[Expr, ...]:
    """Return the index expressions of an instruction."""
    match instruction:
        case Load() | Store():
            return instruction.index
        case IndexValue():
            return (instruction.expr,)
        case Literal() | Apply() | Reduce() | Scan() | Check():
            return ()


def names_used(instruction: Instruction) -> Iterator[str]:
    """Yield the names that an instruction uses: values, axes and size symbols."""
    yield from operands(instruction)
    for expr in index_of(instruction):
        yield from symbols_in(expr)


def needed(code: Sequence[Instruction], roots: Iterable[int]) -> list[int]:
    """Return the places of instructions that some need, these included, in order.

    ``roots`` are the places of those.
    """
    wanted = set(roots)
    used: set[str] = set()
    found: list[int] = []
    for place in range(len(code) - 1, -1, -1):
        if place in wanted or not used.isdisjoint(results(code[place])):
            used.update(names_used(code[place]))
            found.append(place)
    return found[::-1]


def replace_names(expr: Expr, replacement: Callable[[str], Expr | None]) -> Expr:
    """Return an expression with names replaced; it is not copied if none is."""
    if isinstance(expr, Symbol):
        found = replacement(expr.name)
        return expr if found is None else found
    if isinstance(expr, Operation):
        args = tuple(replace_names(arg, replacement) for arg in expr.args)
        same = all(new is old for new, old in zip(args, expr.args, strict=True))
        return expr if same else Operation(expr.op, args)
    return expr


class Substitution:
    """Replaces names in instructions; names that it does not have stay.

    ``values`` has new names of values, ``indices`` the expressions that replace axes and
    size symbols, ``buffers`` new names of buffers.  ``simplify`` is applied to each index
    expression that is changed.
    """

    def __init__(
        self,
        values: Mapping[str, str] | None = None,
        indices: Mapping[str, Expr] | None = None,
        buffers: Mapping[str, str] | None = None,
        simplify: Callable[[Expr], Expr] | None = None,
    ) -> None:
        """Keep the mappings, which may grow while this is used."""
        self._values: Mapping[str, str] = {} if values is None else values
        self._buffers: Mapping[str, str] = {} if buffers is None else buffers
        self._simplify = simplify
        self._indices: Mapping[str, Expr] = {} if indices is None else indices

    def value(self, name: str) -> str:
        """Return the new name of a value."""
        return self._values.get(name, name)

    def index(self, expr: Expr) -> Expr:
        """Return an index expression with its names replaced."""
        changed = replace_names(expr, self._in_index)
        if changed is expr or self._simplify is None:
            return changed
        return self._simplify(changed)

    def _in_index(self, name: str) -> Expr | None:
        found = self._indices.get(name)
        if found is None and name in self._values:
            return Symbol(self._values[name])
        return found

    def steps(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        """Return steps with their names replaced; axes keep their names."""
        return map_steps(steps, self.instruction)

    def instruction(self, old: Instruction) -> Instruction:
        """Return an instruction with its names replaced."""
        value = self.value
        match old:
            case Literal():
                return Literal(
                    result=value(old.result),
                    dtype=old.dtype,
                    value=old.value,
                    origins=old.origins,
                )
            case IndexValue():
                return IndexValue(
                    result=value(old.result),
                    dtype=old.dtype,
                    expr=self.index(old.expr),
                    origins=old.origins,
                )
            case Load():
                return Load(
                    result=value(old.result),
                    dtype=old.dtype,
                    buffer=self._buffers.get(old.buffer, old.buffer),
                    index=tuple(map(self.index, old.index)),
                    mask=None if old.mask is None else value(old.mask),
                    other=old.other,
                    origins=old.origins,
                )
            case Apply():
                return Apply(
                    result=value(old.result),
                    dtype=old.dtype,
                    op=old.op,
                    operands=tuple(map(value, old.operands)),
                    origins=old.origins,
                )
            case Store():
                return Store(
                    buffer=self._buffers.get(old.buffer, old.buffer),
                    index=tuple(map(self.index, old.index)),
                    value=value(old.value),
                    mask=None if old.mask is None else value(old.mask),
                    mode=old.mode,
                    origins=old.origins,
                )
            case Reduce() | Scan():
                return type(old)(
                    results=tuple(map(value, old.results)),
                    dtype=old.dtype,
                    op=old.op,
                    operands=tuple(map(value, old.operands)),
                    origins=old.origins,
                )
            case Check():
                return Check(
                    condition=value(old.condition),
                    message=old.message,
                    mask=None if old.mask is None else value(old.mask),
                    origins=old.origins,
                )
