"""The Triton kernel of attention over few positions, and what its programs compute."""

from typing import TypeAlias

from attrs import define, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis.arithmetic import times
from wrapperir.passes.added_kernels import AddedKernels
from wrapperir.passes.attention_calls import (
    MATRICES,
    MOST_POSITIONS,
    AttentionCall,
    Bounds,
)

LEAST_PROGRAMS = 128
"""Programs of 64 queries that are enough for a GPU."""

MANY_ROWS = 64
"""Queries of a program where there are enough programs."""

MANY_COLUMNS = 64
"""Keys up to which a program sees them all at once."""

_SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def attention(
    query, key, value, mask, out, all_heads, heads, rows, columns, scale,
    query_batch, query_head, query_row, key_batch, key_head, key_row,
    value_batch, value_head, value_row, mask_batch, mask_head, mask_row,
    out_batch, out_head, out_row,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    blocks = tl.cdiv(rows, ROWS)
    both = tl.program_id(0) // blocks
    batch = (both // heads).to(tl.int64)
    head = (both % heads).to(tl.int64)
    i = tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)[:, None]
    d = tl.arange(0, WIDTH)
    query += batch * query_batch + head * query_head + d[None, :]
    key += batch * key_batch + head * key_head + d[:, None]
    value += batch * value_batch + head * value_head + d[None, :]
    mask += batch * mask_batch + head * mask_head + i * mask_row
    out += batch * out_batch + head * out_head + d[None, :]
    q = tl.load(query + i * query_row, i < rows, 0.0)
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for first in range(0, columns, COLUMNS):
        j = first + tl.arange(0, COLUMNS)
        k = tl.load(key + j[None, :] * key_row, j[None, :] < columns, 0.0)
        v = tl.load(value + j[:, None] * value_row, j[:, None] < columns, 0.0)
        score = tl.dot(q, k) * scale
        seen = (j[None, :] < columns) & (i < rows)
        if CAUSAL:
            seen &= j[None, :] <= i
        if MASKED:
            score += tl.load(mask + j[None, :], seen, 0.0).to(tl.float32)
        score = tl.where(seen, score * 1.4426950408889634, float("-inf"))
        found = tl.maximum(largest, tl.max(score, 1))
        # Where nothing is seen, all weights are 0.
        base = tl.where(found == float("-inf"), 0.0, found)
        share = tl.exp2(score - base[:, None])
        fade = tl.exp2(largest - base)
        weight = weight * fade + tl.sum(share, 1)
        total = tl.dot(share.to(v.dtype), v, total * fade[:, None])
        largest = found
    total /= tl.where(weight == 0.0, 1.0, weight)[:, None]
    tl.store(out + i * out_row, total.to(out.dtype.element_ty), i < rows)"""

_STRIDES = tuple(
    f"{name}_{step}"
    for name in ("query", "key", "value", "mask", "out")
    for step in ("batch", "head", "row")
)
_FLAGS = "MASKED", "CAUSAL", "WIDTH", "ROWS", "COLUMNS"
_LARGEST = (1 << 31) - 1


@frozen
class AttentionTile:
    """A program's queries, the keys that it sees at once, and the stages of its loop."""

    rows: int
    columns: int
    stages: int


@frozen
class _Kernel:
    """What a kernel is made for; calls that agree in all of it share one."""

    dtype: wir.DType
    stride: wir.DType
    width: int
    masked: bool
    causal: bool
    tile: AttentionTile

    @property
    def config(self) -> wir.KernelConfig:
        tile = self.tile
        flags = int(self.masked), int(self.causal), self.width, tile.rows, tile.columns
        return wir.KernelConfig(
            (
                *zip(_FLAGS, flags, strict=True),
                ("num_warps", 4),
                ("num_stages", tile.stages),
            )
        )


_Choice: TypeAlias = tuple[tuple[_Kernel, ...], wir.Expr]
"""Kernels, and which of them a launch takes, by its numbers of heads, rows and columns."""


@define
class AttentionKernels:
    """The kernels of attention that a pass adds to a program."""

    names: wir.FreshNames
    _kernels: AddedKernels[_Kernel] = field(init=False)
    _choices: AddedKernels[_Choice] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Begin without kernels."""
        self._kernels = AddedKernels(_definition, "attention", self.names)
        self._choices = AddedKernels(self._choosing, "attention", self.names)

    def launch(self, call: AttentionCall, bounds: Bounds) -> wir.KernelCallLine:
        """Return the launch that writes to memory of the name of the result."""
        for size in (call.rows, call.columns):
            bounds = bounds.few(size)
        strides = _strides(call)
        tiles, index = _tiles(call, bounds)
        kernels = tuple(
            _Kernel(
                dtype=call.query.dtype,
                stride=_stride_dtype(strides, bounds),
                width=call.width,
                masked=call.mask is not None,
                causal=call.causal,
                tile=tile,
            )
            for tile in tiles
        )
        name = (
            self._kernels.name(kernels[0])
            if len(kernels) == 1
            else self._choices.name((kernels, index))
        )
        return wir.KernelCallLine(
            kernel=name,
            arguments=(
                # Without a mask, the kernel does not read the fourth.
                *(*call.refs[:3], (*call.refs, call.refs[0])[3]),
                wir.BufferRef(call.result),
                *(call.all_heads, call.query.size[1], call.rows, call.columns, call.scale),
                *strides,
            ),
            device=call.line.device,
            stream=call.line.stream,
            provenance=call.line.provenance,
        )

    @property
    def are_used(self) -> bool:
        """Whether there is a launch of one."""
        return bool(self._kernels.definitions)

    def added_to(self, program: wir.Program) -> wir.Program:
        """Return a program with these kernels."""
        return self._choices.added_to(self._kernels.added_to(program))

    def _choosing(self, name: str, choice: _Choice) -> wir.MultiKernelLine:
        kernels, index = choice
        names = [self._kernels.name(kernel) for kernel in kernels]
        parameters = wir.runtime_parameters(_parameters(kernels[0]))
        positions = tuple(range(len(parameters)))
        return wir.MultiKernelLine(
            name=name,
            parameters=parameters,
            choices=tuple(wir.KernelChoice(each, positions) for each in names),
            selection=wir.ComputedChoice(index),
        )


def _parameters(kernel: _Kernel) -> tuple[wir.Parameter, ...]:
    dtype, read = kernel.dtype, wir.Access.READ
    sizes = "all_heads", "heads", "rows", "columns"
    return (
        *(wir.BufferParameter(x, dtype, read) for x in MATRICES),
        wir.BufferParameter("mask", dtype, read),
        wir.BufferParameter("out", dtype, wir.Access.WRITE),
        *(wir.ScalarParameter(x, wir.DType.I32) for x in sizes),
        wir.ScalarParameter("scale", wir.DType.F32),
        *(wir.ScalarParameter(x, kernel.stride) for x in _STRIDES),
        *map(wir.ConstexprParameter, _FLAGS),
    )


def _definition(name: str, kernel: _Kernel) -> wir.KernelDefinitionLine:
    blocks = wir.ceildiv(wir.Symbol("rows"), wir.Symbol("ROWS"))
    return wir.KernelDefinitionLine(
        name=name,
        language=wir.Language.TRITON,
        parameters=_parameters(kernel),
        grid=(wir.mul(wir.Symbol("all_heads"), blocks),),
        configs=(kernel.config,),
        entry="attention",
        source=_SOURCE,
    )


def _strides(call: AttentionCall) -> tuple[wir.Expr, ...]:
    """Return the strides of batches, heads and rows of each tensor."""
    tensors = call.query, call.key, call.value, call.mask, call.out
    return tuple(step for each in tensors for step in _steps(each))


def _steps(type: wir.TensorType | None) -> tuple[wir.Expr, ...]:
    """Return three strides, 0 along dimensions of size 1 and without a tensor."""
    if type is None:
        return (0, 0, 0)
    pairs = zip(type.size[:3], type.stride[:3], strict=True)
    return tuple(0 if extent == 1 else step for extent, step in pairs)


def _stride_dtype(strides: tuple[wir.Expr, ...], bounds: Bounds) -> wir.DType:
    """Return the dtype of strides; the last of three is multiplied in it."""
    for at, stride in enumerate(strides):
        high = bounds.of(stride)[1]
        if times(high, MOST_POSITIONS if at % 3 == 2 else 1) > _LARGEST:
            return wir.DType.I64
    return wir.DType.I32


def _tiles(
    call: AttentionCall, bounds: Bounds
) -> tuple[tuple[AttentionTile, ...], wir.Expr]:
    """Return tiles, and which of them suits the kernel's numbers.

    Of a few, those that were fastest on an H200 for constant sizes.
    """
    all_heads, rows, columns = map(wir.Symbol, ("all_heads", "rows", "columns"))
    low, high = bounds.of(call.columns)
    seen = min(high, MOST_POSITIONS)
    assert isinstance(seen, int)
    power = max(16, 1 << (seen - 1).bit_length())
    alone = min(power, 128)
    small: list[AttentionTile] = [AttentionTile(16, alone, 1 if alone >= seen else 2)]
    of_small: wir.Expr = 0
    if low <= MANY_COLUMNS < seen:
        small.insert(0, AttentionTile(16, MANY_COLUMNS, 1))
        is_short = wir.compare(wir.ExprOp.LE, columns, MANY_COLUMNS)
        of_small = wir.Operation(wir.ExprOp.WHERE, (is_short, 0, 1))
    large = AttentionTile(MANY_ROWS, min(power, 32 if seen <= MANY_COLUMNS else 64), 2)
    programs = wir.mul(call.all_heads, wir.ceildiv(call.rows, MANY_ROWS))
    fewest, most_programs = bounds.of(programs)
    fewest_rows, most_rows = bounds.of(call.rows)
    if most_rows <= 16 or most_programs < LEAST_PROGRAMS:
        return tuple(small), of_small
    if fewest_rows > 16 and fewest >= LEAST_PROGRAMS:
        return (large,), 0
    are_few = wir.Operation(
        wir.ExprOp.OR,
        (
            wir.compare(wir.ExprOp.LE, rows, 16),
            wir.compare(
                wir.ExprOp.LT,
                wir.mul(all_heads, wir.ceildiv(rows, MANY_ROWS)),
                LEAST_PROGRAMS,
            ),
        ),
    )
    index = wir.Operation(wir.ExprOp.WHERE, (are_few, of_small, len(small)))
    return (*small, large), index
