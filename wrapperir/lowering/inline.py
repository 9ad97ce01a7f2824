"""Compute a producer's values again where they are read.

Before::

    nest i0 < 4, i1 < 8:                     nest j0 < 8, j1 < 4:
        v0 = load x[i0, i1]                      w0 = load y[j1, j0]
        v1 = exp v0                              w1 = add w0 w0
        store y[i0, i1] = v1                     store z[j0, j1] = w1

After::

    nest j0 < 8, j1 < 4:
        v0 = load x[j1, j0]
        v1 = exp v0
        w1 = add v1 v1
        store z[j0, j1] = w1
"""

from collections.abc import Collection, Iterable, Mapping

from attrs import define, evolve, field, frozen

from wrapperir.ir import DType, Expr, NodeOrigin, Symbol, TensorType, floordiv, mod, mul
from wrapperir.lowering.flat_nest import FlatNest, is_atomic
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.kernel import SizeSymbols
from wrapperir.lowering.loops import (
    Apply,
    Check,
    Instruction,
    Load,
    Reduce,
    Scan,
    Store,
)
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.space_matching import mixed_radix
from wrapperir.lowering.substitution import Substitution, names_used, needed, results
from wrapperir.lowering.value_numbering import masked_value

_DIVISIONS = frozenset(
    {ScalarOp.FLOORDIV, ScalarOp.TRUNCDIV, ScalarOp.REMAINDER, ScalarOp.FMOD}
)
_MOST_INSTRUCTIONS = 500


@frozen(kw_only=True)
class Producer:
    """Instructions that compute the value of any element of a buffer.

    ``axes`` has each axis over ``dim0``, ``dim1`` …, the indices of the element.
    """

    code: tuple[Instruction, ...]
    store: Store
    axes: Mapping[str, Expr]
    origins: tuple[NodeOrigin, ...] = ()

    @property
    def sources(self) -> set[str]:
        """The buffers that the instructions read."""
        return {each.buffer for each in self.code if isinstance(each, Load)}


def producer_of(
    flat: FlatNest, buffer: str, type: TensorType, symbols: SizeSymbols
) -> Producer | None:
    """Return how to compute each element of a buffer, or ``None``.

    There is one plain store to it, which reaches every element, at an index that tells the
    point; the value needs no reduction, and nothing that the nest overwrites.
    """
    stores = [each for each in flat.code if isinstance(each, Store)]
    ours = [each for each in stores if each.buffer == buffer]
    if len(ours) != 1 or ours[0].mask is not None or is_atomic(ours[0]):
        return None
    (store,) = ours
    roots = [p for p, e in enumerate(flat.code) if e is store or isinstance(e, Check)]
    places = needed(flat.code, roots)
    code = tuple(flat.code[place] for place in places if flat.code[place] is not store)
    written = {each.buffer for each in stores}
    for each in code:
        if isinstance(each, Reduce | Scan):
            return None
        if isinstance(each, Load) and each.buffer in written:
            return None
    axes = _inverse(store.index, type.size, flat, symbols)
    names = {axis.name for axis in flat.axes}
    if axes is None or any(
        name in names and name not in axes for each in code for name in names_used(each)
    ):
        return None
    origins = flat.stored.get(buffer, flat.origins)
    others = {*flat.origins} - {*origins}
    return Producer(
        code=tuple(_without_origins(each, others) for each in code),
        store=store,
        axes=axes,
        origins=origins,
    )


def _without_origins(
    instruction: Instruction, others: Collection[NodeOrigin]
) -> Instruction:
    """Return an instruction without the nodes of equal ones that are for other buffers."""
    own = tuple(each for each in instruction.origins if each not in others)
    return instruction if own == instruction.origins else evolve(instruction, origins=own)


def _inverse(
    index: tuple[Expr, ...],
    sizes: tuple[Expr, ...],
    flat: FlatNest,
    symbols: SizeSymbols,
) -> dict[str, Expr] | None:
    """Return each axis over the indices ``dim0``, ``dim1`` … of an element."""
    by_name = {axis.name: axis for axis in flat.axes}
    ranges = flat.ranges(symbols)
    found: dict[str, Expr] = {}
    for number, (part, size) in enumerate(zip(index, sizes, strict=True)):
        value: Expr = Symbol(f"dim{number}")
        digits = mixed_radix(ranges.sum_of(part), by_name, ranges)
        if digits is None or any(axis.name in found for axis in digits):
            return None
        covered: Expr = 1
        for place, axis in enumerate(digits):
            covered = mul(covered, axis.extent)
            last = place == len(digits) - 1
            found[axis.name] = value if last else mod(value, axis.extent)
            value = floordiv(value, axis.extent)
        if not ranges.equal(covered, size):
            return None
    return found


def can_mask(code: Iterable[Instruction]) -> bool:
    """Say whether instructions may run where loads are masked: none divides by zero."""
    return not any(
        isinstance(each, Apply) and each.op in _DIVISIONS and each.dtype.is_integer
        for each in code
    )


def inline_producer(
    producer: Producer, reader: FlatNest, symbols: SizeSymbols, prefix: str
) -> FlatNest | str:
    """Return a reader that computes what it read of a producer's buffer, or why not.

    New names begin with ``prefix``.
    """
    buffer = producer.store.buffer
    loads = [each for each in reader.code if isinstance(each, Load)]
    ours = [each for each in loads if each.buffer == buffer]
    if any(each.mask is not None for each in ours) and not can_mask(producer.code):
        return "it divides, where its operands may be masked"
    count = len(dict.fromkeys((each.index, each.mask) for each in ours))
    if len(reader.code) + count * len(producer.code) > _MOST_INSTRUCTIONS:
        return "the kernel would be too large"
    instances = _Instances(producer, reader.ranges(symbols), prefix)
    code: list[Instruction] = []
    deep: list[bool] = []
    for each, is_deep in zip(reader.code, reader.deep, strict=True):
        if isinstance(each, Load) and each.buffer == buffer:
            new = instances.values_of(each)
        else:
            new = [instances.renamed(each)]
        code += new
        deep += [is_deep] * len(new)
    return evolve(
        reader,
        code=tuple(code),
        deep=tuple(deep),
        origins=(*producer.origins, *reader.origins),
        stored={
            name: (*producer.origins, *origins) for name, origins in reader.stored.items()
        },
    )


@define
class _Instances:
    """Copies of a producer's instructions, one for each index and mask."""

    producer: Producer
    ranges: IndexRanges
    prefix: str
    _made: dict[tuple[tuple[Expr, ...], str | None], str] = field(
        factory=dict[tuple[tuple[Expr, ...], str | None], str]
    )
    _names: dict[str, str] = field(factory=dict[str, str])

    def renamed(self, each: Instruction) -> Instruction:
        """Return an instruction that uses copies instead of loads."""
        if not self._names:
            return each
        return Substitution(self._names, simplify=self.ranges.simplify).instruction(each)

    def values_of(self, load: Load) -> list[Instruction]:
        """Return the instructions that compute what a load reads."""
        renamed = self.renamed(load)
        assert isinstance(renamed, Load)
        made = self._made.get((renamed.index, renamed.mask))
        code: list[Instruction] = []
        if made is None:
            made = self._copy(renamed.index, renamed.mask, code)
            self._made[renamed.index, renamed.mask] = made
        if renamed.mask is None:
            self._names[load.result] = made
            return code
        return [*code, *masked_value(load, made, renamed.mask, self.prefix)]

    def _copy(
        self, index: tuple[Expr, ...], mask: str | None, code: list[Instruction]
    ) -> str:
        produced = self.producer.code
        start = f"{self.prefix}{len(self._made)}."
        values = {name: start + name for each in produced for name in results(each)}
        dims = Substitution(indices={f"dim{n}": part for n, part in enumerate(index)})
        axes = {
            axis: self.ranges.simplify(dims.index(expr))
            for axis, expr in self.producer.axes.items()
        }
        rename = Substitution(values, axes, simplify=self.ranges.simplify)
        for each in produced:
            new = rename.instruction(each)
            if mask is not None and isinstance(new, Load | Check):
                new = self._masked(new, mask, code, start)
            code.append(new)
        return values[self.producer.store.value]

    def _masked(
        self, each: Load | Check, mask: str, code: list[Instruction], start: str
    ) -> Load | Check:
        if each.mask is None:
            return evolve(each, mask=mask)
        both = Apply(
            result=f"{start}mask{len(code)}",
            dtype=DType.BOOL,
            op=ScalarOp.AND,
            operands=(each.mask, mask),
            origins=each.origins,
        )
        code.append(both)
        return evolve(each, mask=both.result)


def load_count(code: Iterable[Instruction]) -> int:
    """Return how many different elements are loaded at a point."""
    loads = [each for each in code if isinstance(each, Load)]
    return len({(each.buffer, each.index) for each in loads})
