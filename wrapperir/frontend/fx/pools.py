"""Recovery of pools, memory that a graph only makes views of, and of valid frees."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, evolve, field

from wrapperir import ir as wir
from wrapperir.analysis.arithmetic import (
    UNBOUNDED,
    Polynomial,
    Polynomials,
    combine,
)
from wrapperir.analysis.sizes import symbol_ranges
from wrapperir.diagnostics import Code, Diagnostic, Severity
from wrapperir.ir.blocks import blocks_of, rewrite_blocks, walk_lines
from wrapperir.ir.line_effects import LineEffects, definitions, uses
from wrapperir.ir.mentions import buffers_in
from wrapperir.passes import insert_frees
from wrapperir.verify import verify


def recover_pools(program: wir.Program) -> wir.Program:
    """Return the program with pools for the memory that it only makes views of, and frees.

    Each view of a pool becomes a placement, whose bytes no other live placement has.  If
    views overlap, the memory stays as it is.  Missing frees are inserted last, since the
    rewriting changes which names are used.

    Before::

        %pool0 = allocate f32[16]
        %buf0 = reinterpret %pool0 as f32[4; offset 8]

    After::

        %pool0 = allocate_pool pool[64]
        %buf0 = place f32[4] in %pool0 at 32
    """
    scope = _PoolScope(_SizeOrder.of_program(program), {})
    lines = scope.lines(program.lines, program.outputs)
    if lines != program.lines:
        recovered = insert_frees(keep_last_frees(evolve(program, lines=lines)))
        if not any(map(_refutes, verify(recovered))):
            return recovered
    return insert_frees(program)


def _refutes(found: Diagnostic) -> bool:
    """Say whether a diagnostic shows that memory is not a pool.

    Workspaces are recovered after pools, so an argument that is not yet one shows nothing.
    """
    return found.severity is Severity.ERROR and found.code is not Code.WORKSPACE_ARGUMENT


@define(eq=False)
class _SizeOrder:
    """Compares sizes of symbols with one definition, which is not in a nested block."""

    polynomials: Polynomials
    kept: list[wir.Expr] = field(factory=list[wir.Expr])
    """Expressions that were compared: polynomials are remembered by identity."""

    @classmethod
    def of_program(cls, program: wir.Program) -> "_SizeOrder":
        outer = [*program.symbols, *_symbols(program.lines)]
        inner = {line.symbol for line in _symbols(walk_lines(program.lines))}
        inner -= {line.symbol for line in _symbols(program.lines)}
        known = {s.symbol for s in outer if s.kind is wir.SymbolKind.INT} - inner
        every = symbol_ranges(program)
        ranges = {name: every[name] for name in known}
        computed: dict[str, Polynomial] = {}
        polynomials = Polynomials(lambda name: ranges.get(name, UNBOUNDED), computed.get)
        for line in outer:
            if line.symbol in known and isinstance(line.source, wir.Symbol):
                computed[line.symbol] = polynomials.of(line.source)
        return cls(polynomials)

    def at_most(self, left: Sequence[wir.Expr], right: Sequence[wir.Expr]) -> bool:
        """Say whether one sum is at most the other, whatever the symbols are."""
        self.kept += [*left, *right]
        rest: Polynomial = {}
        for term in right:
            rest = combine(rest, self.polynomials.of(term))
        for term in left:
            rest = combine(rest, self.polynomials.of(term), -1)
        return self.polynomials.bounds(rest)[0] >= 0


def _symbols(lines: Iterable[wir.BodyLine]) -> Iterator[wir.SymbolDefinitionLine]:
    return (line for line in lines if isinstance(line, wir.SymbolDefinitionLine))


@define(eq=False)
class _PlacedPart:
    pool: str
    begin: wir.Expr
    bytes: wir.Expr
    names: list[str] = field(factory=list[str])
    freed: bool = False


@define(eq=False)
class _PoolScope:
    """The pools of one block, and the parts that were placed in them.

    A graph that reuses memory views it again, without a free between.

    Attributes:
        pools: the pool of each name of a pool, or of a view of all of it.
        begins: offset of each placed name and inner pool in the outermost pool, in bytes.
        last: the last line, by number, that uses or frees a name.
    """

    sizes: _SizeOrder
    pools: dict[str, str]
    types: dict[str, wir.PoolType] = field(factory=dict[str, wir.PoolType])
    begins: dict[str, wir.Expr] = field(factory=dict[str, wir.Expr])
    outermost: dict[str, str] = field(factory=dict[str, str])
    parts: dict[str, _PlacedPart] = field(factory=dict[str, _PlacedPart])
    last: dict[str, int] = field(factory=dict[str, int])

    def lines(
        self, lines: Sequence[wir.BodyLine], results: Iterable[wir.Argument]
    ) -> tuple[wir.BodyLine, ...]:
        """Return the lines of the block with pools."""
        results = list(results)
        found = _pools(lines, results, self.pools, self.begins)
        self.last = {name: at for at, line in enumerate(lines) for name in uses(line)}
        self.last.update((n, len(lines)) for value in results for n in buffers_in(value))
        made = (self._line(line, found, at) for at, line in enumerate(lines))
        return tuple(line for line in made if line is not None)

    def _line(
        self, line: wir.BodyLine, found: Mapping[str, str], at: int
    ) -> wir.BodyLine | None:
        """Return a line with pools; ``None`` for a line that pools make redundant.

        Lines of other kinds than these name no pool: :func:`_pools` saw to that.
        """
        if isinstance(line, wir.AllocateLine) and found.get(line.result) == line.result:
            name, type = line.result, _pool_type(line.type)
            self.pools[name], self.types[name] = name, type
            return wir.AllocatePoolLine(result=name, type=type, provenance=line.provenance)
        if isinstance(line, wir.ReinterpretLine) and line.source in self.pools:
            return self._placed(line, found, at)
        if isinstance(line, wir.ReinterpretLine) and line.source in self.begins:
            begin = self.begins[line.result] = self.begins[line.source]
            self._view(line.result, line.source)
            return evolve(line, type=_moved(line.type, begin))
        if isinstance(line, wir.FreeLine):
            if self.pools.get(line.buffer, line.buffer) != line.buffer:
                return None
            if line.buffer in self.parts:
                self.parts[line.buffer].freed = True
        if isinstance(line, wir.AssertSizeStrideLine) and line.buffer in self.pools:
            return None
        return self._with_blocks(line) if blocks_of(line) else line

    def _placed(
        self, line: wir.ReinterpretLine, found: Mapping[str, str], at: int
    ) -> wir.BodyLine | None:
        pool, type = self.pools[line.source], line.type
        if line.result in found and found[line.result] == pool:
            self.pools[line.result] = pool
            return None
        begin = wir.mul(type.offset, type.dtype.itemsize)
        outermost = self.outermost.get(pool, pool)
        held = self._holding(outermost, type, begin, at)
        if (
            held is not None
            and wir.quotient(self.begins[held], type.dtype.itemsize) is not None
        ):
            self.begins[line.result] = self.begins[held]
            self._view(line.result, held)
            return evolve(line, source=held, type=_moved(type, self.begins[held]))
        self.begins[line.result] = begin
        if pool in self.begins:  # offsets count from the outermost pool
            begin = _difference(begin, self.begins[pool])
        placed: wir.TensorType | wir.PoolType = evolve(type, offset=0)
        if found.get(line.result) == line.result:
            alignment = math.gcd(self.types[pool].alignment, _factor(begin))
            placed = evolve(_pool_type(type), alignment=alignment)
            self.pools[line.result], self.types[line.result] = line.result, placed
            self.outermost[line.result] = outermost
        else:
            part = _PlacedPart(outermost, self.begins[line.result], _bytes(type))
            self.parts[line.result] = part
            part.names.append(line.result)
        return wir.PlaceLine(
            result=line.result,
            type=placed,
            pool=pool,
            offset=begin,
            provenance=line.provenance,
        )

    def _view(self, name: str, source: str) -> None:
        """Add a view of a part, which keeps it alive."""
        if source in self.parts:
            part = self.parts[name] = self.parts[source]
            part.names.append(name)

    def _holding(
        self, pool: str, type: wir.TensorType, begin: wir.Expr, at: int
    ) -> str | None:
        """Return a part that lives at a line and has all bytes of a view, if any does."""
        size = _bytes(type)
        for name, part in reversed(self.parts.items()):
            if part.pool == pool and name == part.names[0]:
                used = any(self.last.get(each, -1) > at for each in part.names)
                same = part.begin == begin and part.bytes == size
                if (used or not part.freed) and (
                    same or self._is_within(begin, size, part)
                ):
                    return name
        return None

    def _is_within(self, begin: wir.Expr, size: wir.Expr, part: _PlacedPart) -> bool:
        end = (part.begin, part.bytes)
        at_most = self.sizes.at_most
        return at_most((part.begin,), (begin,)) and at_most((begin, size), end)

    def _with_blocks(self, line: wir.BodyLine) -> wir.BodyLine:
        # All blocks of a line are given the same.
        given = _EFFECTS.visit(line).blocks[0].operands

        def rewrite(block: wir.Block) -> wir.Block:
            inner = _PoolScope(self.sizes, {})
            parameters: list[wir.BlockParameter] = []
            for parameter, argument in zip(block.parameters, given, strict=True):
                type: wir.ValueType = parameter.type
                if not isinstance(argument, wir.BufferRef):
                    pass
                elif argument.name in self.types:
                    type = inner.types[parameter.name] = self.types[argument.name]
                    inner.pools[parameter.name] = parameter.name
                    if argument.name in self.begins:
                        inner.begins[parameter.name] = self.begins[argument.name]
                elif argument.name in self.begins and isinstance(type, wir.TensorType):
                    begin = inner.begins[parameter.name] = self.begins[argument.name]
                    type = _moved(type, begin)
                parameters.append(evolve(parameter, type=type))
            lines = inner.lines(block.lines, block.results)
            return evolve(block, parameters=tuple(parameters), lines=lines)

        return rewrite_blocks(line, rewrite)


_EFFECTS = LineEffects(None)


def _pools(
    lines: Sequence[wir.BodyLine],
    results: Iterable[wir.Argument],
    given: Mapping[str, str],
    begins: Mapping[str, wir.Expr],
) -> dict[str, str]:
    """Return the names that only views are made of: pools, and views of all of one."""
    used = {name for result in results for name in buffers_in(result)}
    for line in lines:
        # Lines of these kinds are rewritten, or left out, if they name a pool.
        is_view = isinstance(
            line, wir.ReinterpretLine | wir.AssertSizeStrideLine | wir.FreeLine
        )
        if not is_view and not blocks_of(line):
            used.update(uses(line))
        if isinstance(line, wir.WhileLoopLine):
            used.update(a.name for a in line.carried if isinstance(a, wir.BufferRef))
    viewed = {line.source for line in lines if isinstance(line, wir.ReinterpretLine)}
    lent = {name for line in lines if blocks_of(line) for name in uses(line)}
    found: dict[str, str] = dict(given)
    starts: dict[str, wir.Expr] = {name: begins.get(name, 0) for name in given}
    for line in lines:
        if isinstance(line, wir.AllocateLine) and line.workspace is None:
            known = _is_bytes(line.type) or line.result in viewed
            if known and _is_flat(line.type) and line.result not in used:
                found[line.result], starts[line.result] = line.result, 0
        elif isinstance(line, wir.ReinterpretLine) and line.source in found:
            name, type, pool = line.result, line.type, found[line.source]
            if name in used or name not in viewed | lent or not _is_flat(type):
                continue
            begin = wir.divided(starts[pool], type.dtype.itemsize)
            if name not in lent and type.offset == begin:
                found[name] = pool
            elif _is_bytes(type):
                found[name], starts[name] = name, type.offset
    return found


def _is_bytes(type: wir.TensorType) -> bool:
    return type.dtype is wir.DType.U8 and _is_flat(type)


def _is_flat(type: wir.TensorType) -> bool:
    return len(type.size) == 1 and type.stride == (1,)


def _pool_type(type: wir.TensorType) -> wir.PoolType:
    return wir.PoolType(
        size=wir.mul(type.size[0], type.dtype.itemsize),
        device=type.device,
        space=type.space,
        pinned=type.pinned,
        alignment=type.alignment or wir.POOL_ALIGNMENT,
    )


def _moved(type: wir.TensorType, begin: wir.Expr) -> wir.TensorType:
    """Return a type that counts from a place ``begin`` bytes further on."""
    elements = wir.divided(begin, type.dtype.itemsize)
    return evolve(type, offset=_difference(type.offset, elements))


def _factor(expr: wir.Expr) -> int:
    """Return an int that divides an expression, whatever its symbols are; 0 for 0."""
    if isinstance(expr, int):
        return expr
    if not isinstance(expr, wir.Operation):
        return 1
    factors = [_factor(arg) for arg in expr.args]
    match expr.op:
        case wir.ExprOp.MUL:
            return math.prod(factors)
        case wir.ExprOp.ADD | wir.ExprOp.SUB:
            return math.gcd(*factors)
        case _:
            return 1


def _difference(whole: wir.Expr, part: wir.Expr) -> wir.Expr:
    if whole == part:
        return 0
    if (
        isinstance(whole, wir.Operation)
        and whole.op is wir.ExprOp.ADD
        and whole.args[0] == part
    ):
        rest: wir.Expr = 0
        for term in whole.args[1:]:
            rest = wir.add(rest, term)
        return rest
    return wir.sub(whole, part)


def _bytes(type: wir.TensorType) -> wir.Expr:
    if type.stride == wir.contiguous_stride(type.size):  # one product, equal to others
        return wir.mul(wir.product(type.size), type.dtype.itemsize)
    return wir.mul(wir.storage_extent(type), type.dtype.itemsize)


def keep_last_frees(program: wir.Program) -> wir.Program:
    """Return the program without the frees that are not the last use of an owned name.

    A changed graph may use a value after its free, and may have two nodes of one name.
    ``insert_frees`` then adds the missing frees.
    """
    inputs = {input.name for input in program.inputs}
    return evolve(program, lines=_kept(program.lines, program.outputs, inputs))


def _kept(
    lines: Sequence[wir.BodyLine], results: Iterable[wir.Argument], inputs: set[str]
) -> tuple[wir.BodyLine, ...]:
    owned = inputs.union(name for line in lines for name, _ in definitions(line))
    used = {name for result in results for name in buffers_in(result)}
    backward: list[wir.BodyLine] = []
    for line in reversed(lines):
        if isinstance(line, wir.FreeLine) and (
            line.buffer in used or line.buffer not in owned
        ):
            continue
        used.update(uses(line))
        backward.append(rewrite_blocks(line, _keep_frees))
    return tuple(reversed(backward))


def _keep_frees(block: wir.Block) -> wir.Block:
    return evolve(block, lines=_kept(block.lines, block.results, set()))
