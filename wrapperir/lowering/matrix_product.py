"""Sums of products that multiply matrices, which GPUs have instructions for.

For example, where ``x`` and ``w`` are of a half type::

    nest i0 < 64, i1 < 128:
        for r0 < 256:
            v0 = load x[i0, r0]
            v1 = cast v0 : f32
            v2 = load w[i1, r0]
            v3 = cast v2 : f32
            v4 = mul v1 v3 : f32
            v5 = reduce sum v4

The left operand varies along the rows ``i0``, the right one along the columns ``i1``, both
along the inner axes.  A convolution is such a product, too: its rows are pixels, and its
inner axes the points of a window and the channels.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import evolve, frozen

from wrapperir.ir import DType, TensorType
from wrapperir.lowering.costs import TypicalSizes, device_costs
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    Check,
    IndexValue,
    Instruction,
    Literal,
    Load,
    Reduce,
    Scan,
    Store,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.substitution import names_used, needed, results

_OPERANDS = frozenset({DType.F16, DType.BF16})
LEAST_EXTENT = 16
"""Rows, columns and terms of each sum that an instruction multiplies."""
LEAST_TERMS = 1 << 21
"""Multiplications from which instructions take less time than a loop of sums."""


@frozen(kw_only=True)
class Contraction:
    """A product of matrices in a nest: operands, and what each varies along.

    ``total`` is the name of the sum, in ``f32``; ``left`` and ``right`` are the names of
    the operands, of a half type.  ``left_code`` and ``right_code`` are the instructions
    that compute them, in order.  The parallel axes are ``batches``, which both operands
    vary along, ``rows``, only the left, and ``columns``, only the right.
    """

    total: str
    left: str
    right: str
    left_code: tuple[Instruction, ...]
    right_code: tuple[Instruction, ...]
    batches: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]

    @property
    def transposed(self) -> "Contraction":
        """The product with its operands exchanged."""
        return evolve(
            self,
            left=self.right,
            right=self.left,
            left_code=self.right_code,
            right_code=self.left_code,
            rows=self.columns,
            columns=self.rows,
        )


def suiting_product(
    code: Sequence[Instruction],
    parallel: Sequence[Axis],
    inner: Sequence[Axis],
    buffers: Mapping[str, TensorType],
    sizes: TypicalSizes,
) -> Contraction | None:
    """Return the product that instructions over axes compute, if it suits their device.

    Matrices are neither thin nor small: then the sums of their products take less time in
    a loop.
    """
    product = find_product(code, parallel, inner) if inner else None
    if product is None:
        return None
    kinds = {
        buffers[each.buffer].device.kind for each in code if isinstance(each, Load | Store)
    }
    if not all(device_costs(kind).multiplies_matrices for kind in kinds):
        return None
    extents = [sizes.points(axes) for axes in (product.rows, product.columns, inner)]
    is_large = sizes.points((*parallel, *inner)) >= LEAST_TERMS
    return product if is_large and min(extents) >= LEAST_EXTENT else None


def find_product(
    code: Sequence[Instruction], parallel: Sequence[Axis], inner: Sequence[Axis]
) -> Contraction | None:
    """Return the product that instructions over axes compute; it is the only reduction."""
    reduction = _only_sum(code)
    if reduction is None or any(isinstance(each, Check) for each in code):
        return None
    definitions = {name: place for place, each in enumerate(code) for name in results(each)}
    factors = _factors(code, definitions, reduction)
    if factors is None:
        return None
    slices = [_slice(code, definitions[name]) for name in factors]
    stored = {each.buffer for each in code if isinstance(each, Store)}
    if any(not _is_plain(each, stored) for part in slices for each in part):
        return None
    left, right = ({name for each in part for name in names_used(each)} for part in slices)
    if any(not any(axis.name in names for axis in inner) for names in (left, right)):
        return None
    if any(axis.name not in left | right for axis in parallel):
        return None
    return Contraction(
        total=reduction.results[0],
        left=factors[0],
        right=factors[1],
        left_code=slices[0],
        right_code=slices[1],
        batches=tuple(axis for axis in parallel if axis.name in left & right),
        rows=tuple(axis for axis in parallel if axis.name not in right),
        columns=tuple(axis for axis in parallel if axis.name not in left),
    )


def _only_sum(code: Iterable[Instruction]) -> Reduce | None:
    """Return the only reduction, if it is a sum of ``f32`` and nothing is scanned."""
    found = [each for each in code if isinstance(each, Reduce | Scan)]
    reduction = found[0] if len(found) == 1 else None
    if not isinstance(reduction, Reduce):
        return None
    is_sum = reduction.op is ReduceOp.SUM and reduction.dtype is DType.F32
    return reduction if is_sum else None


def _factors(
    code: Sequence[Instruction], definitions: Mapping[str, int], reduction: Reduce
) -> tuple[str, str] | None:
    """Return the values of one half type whose products a reduction adds."""

    def definition(name: str) -> Apply | None:
        found = code[definitions[name]]
        return found if isinstance(found, Apply) else None

    product = definition(reduction.operands[0])
    if product is None or product.op is not ScalarOp.MUL:
        return None
    factors: list[str] = []
    dtypes: list[DType] = []
    for name in product.operands:
        cast = definition(name)
        if cast is None or cast.op is not ScalarOp.CAST:
            return None
        (value,) = cast.operands
        dtype = _dtype(code[definitions[value]])
        if dtype is None or dtype not in _OPERANDS:
            return None
        factors.append(value)
        dtypes.append(dtype)
    return (factors[0], factors[1]) if dtypes[0] is dtypes[1] else None


def _dtype(instruction: Instruction) -> DType | None:
    match instruction:
        case Literal() | IndexValue() | Load() | Apply():
            return instruction.dtype
        case Store() | Reduce() | Scan() | Check():
            return None


def _slice(code: Sequence[Instruction], root: int) -> tuple[Instruction, ...]:
    return tuple(code[place] for place in needed(code, [root]))


def _is_plain(instruction: Instruction, stored: Collection[str]) -> bool:
    """Say whether an instruction computes a value of what stays as it is."""
    if isinstance(instruction, Load):
        return instruction.buffer not in stored
    return isinstance(instruction, Literal | IndexValue | Apply)
