"""Pools in Python: a tensor for each, and a view for each place in it that is used.

A view is made once a call: buffers that are placed at the same bytes with the same type,
one after the other, are one tensor.  So placing and freeing mostly cost nothing.
"""

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from attrs import define, evolve, field, frozen

from wrapperir.emit.fragment import Fragment, joined
from wrapperir.ir.expr import Expr, ExprOp, Operation, add, floordiv, mul
from wrapperir.ir.line import AllocatePoolLine, PlaceLine, ZeroMode
from wrapperir.ir.types import DType, PoolType, TensorType, storage_extent
from wrapperir.text import format_type
from wrapperir_python.pool_survey import Layout, PoolUse, layout_at

if TYPE_CHECKING:
    from wrapperir_python.lines import PythonLines


@define(eq=False)
class _Pool:
    """An allocated pool: its tensor, and how many names hold its memory."""

    tensor: Fragment
    type: TensorType
    size: Expr
    names: int = 1


@frozen
class _Place:
    """Where a pool, or a buffer's storage, begins in an allocated pool, in bytes."""

    pool: _Pool
    begin: Expr


_Views: TypeAlias = dict[tuple[Fragment, Layout], Fragment]


@frozen
class _Scope:
    """What a block has made: views by layout, and all tensors of each pool."""

    views: _Views = field(factory=_Views)
    tensors: dict[Fragment, list[Fragment]] = field(factory=dict[Fragment, list[Fragment]])


class PooledMemory:
    """Appends what pools need to the lines of a block, and knows what lies where."""

    def __init__(self, lines: "PythonLines") -> None:
        """Start with no pools, in the outermost block."""
        self._lines = lines
        self._places: dict[str, _Place] = {}
        self._scopes = [_Scope()]
        self._made = Counter[str]()

    def __contains__(self, name: str) -> bool:
        """Say whether a name is a pool, or a tensor in one."""
        return name in self._places

    def enter(self) -> None:
        """Begin a nested block."""
        self._scopes.append(_Scope())

    def leave(self) -> None:
        """Drop what the block has made; its results have names of their own."""
        for tensors in self._scopes.pop().tensors.values():
            self._emit_drop(tensors)

    def lend(self, parameter: str, operand: str) -> None:
        """Let a block's parameter stand for a pool."""
        self._places[parameter] = self._places[operand]

    def allocate(self, line: AllocatePoolLine) -> None:
        """Append ``pool0 = empty_strided_cpu((512,), (1,), float32)``."""
        tensor = self._lines.values[line.result]
        type = _tensor_type(self._lines.survey.pools[line.result])
        pool = _Pool(tensor, type, line.type.size)
        self._places[line.result] = _Place(pool, 0)
        allocation = self._lines.format_allocation(type)
        self._lines.writer.emit_line("{} = {}", tensor, allocation)
        scope = self._scopes[-1]
        scope.tensors[tensor] = [tensor]
        scope.views[tensor, layout_at(0, type)] = tensor

    def place(self, line: PlaceLine) -> None:
        """Append ``pool0_at_256_f32 = reinterpret_tensor(pool0, (8, 8), (8, 1), 64)``."""
        outer = self._places[line.pool]
        place = _Place(outer.pool, add(outer.begin, line.offset))
        self._begin(line.result, place, line.type)
        if line.workspace is ZeroMode.ZERO_ON_CALL:
            self._lines.streams.emit_zero(line.result)

    def view(self, result: str, source: str, type: TensorType) -> None:
        """Let a name stand for a view of a buffer in a pool."""
        self._begin(result, self._places[source], type)

    def drop(self, name: str) -> None:
        """Drop a name; with the last name of a pool, append ``del`` of its tensors."""
        pool = self._places[name].pool
        pool.names -= 1
        if not pool.names:
            self._emit_drop(self._scopes[-1].tensors.pop(pool.tensor))

    def _begin(self, name: str, place: _Place, type: TensorType | PoolType) -> None:
        self._places[name] = place
        place.pool.names += 1
        if isinstance(type, TensorType):
            self._lines.types[name] = type
            self._lines.owned.add(name)
            view = self._lines.values[name] = self._find_view(place, type)
            self._lines.writer.emit_comment(f"{name} is {view}: {format_type(type)}")

    def _find_view(self, place: _Place, type: TensorType) -> Fragment:
        """Return the tensor that has a layout, made by this block or one around it."""
        pool = place.pool
        layout = layout_at(place.begin, type)
        source, old = self._base(pool, type.dtype)  # this may be of that layout itself
        known = self._known(pool, layout)
        if known is not None:
            return known
        first = layout[0]
        size = type.dtype.itemsize
        offset = _quotient(first, size)
        if offset is None:
            offset = floordiv(first, size)
        where = f"at_{first}" if isinstance(first, int) else "view"
        suffix = f"{where}_{type.dtype.value}"
        return self._make(*(pool, layout, source, old), evolve(type, offset=offset), suffix)

    def _base(self, pool: _Pool, dtype: DType) -> tuple[Fragment, TensorType]:
        """Return a tensor of a dtype from which the pool's views can be made."""
        if dtype is pool.type.dtype:
            return pool.tensor, pool.type
        length = floordiv(pool.size, dtype.itemsize)
        type = evolve(pool.type, dtype=dtype, size=(length,), stride=(1,))
        layout = layout_at(0, type)
        known = self._known(pool, layout)
        if known is None:
            source, old = pool.tensor, pool.type
            known = self._make(pool, layout, source, old, type, dtype.value)
        return known, type

    def _known(self, pool: _Pool, layout: Layout) -> Fragment | None:
        for scope in reversed(self._scopes):
            known = scope.views.get((pool.tensor, layout))
            if known is not None:
                return known
        return None

    def _make(
        self,
        pool: _Pool,
        layout: Layout,
        source: Fragment,
        old: TensorType,
        new: TensorType,
        suffix: str,
    ) -> Fragment:
        wanted = f"{pool.tensor[:200]}_{suffix}"
        self._made[wanted] += 1
        count = self._made[wanted]
        name = self._lines.module.names.claim(wanted if count == 1 else f"{wanted}_{count}")
        view = self._lines.memory.format_view(source, old, new)
        self._lines.writer.emit_line("{} = {}", name, view)
        scope = self._scopes[-1]
        scope.views[pool.tensor, layout] = name
        scope.tensors.setdefault(pool.tensor, []).append(name)
        return name

    def _emit_drop(self, tensors: list[Fragment]) -> None:
        self._lines.writer.emit_line("del {}", joined(", ", tensors))


def _tensor_type(use: PoolUse) -> TensorType:
    """Return the type of a pool's tensor: one that saves making views of it.

    Where all is placed in one way and fills the pool, it is that type; otherwise a vector
    of the commonest dtype that measures the pool, or of bytes.
    """
    pool = use.type
    plain = TensorType(
        dtype=DType.U8,
        size=(pool.size,),
        stride=(1,),
        device=pool.device,
        space=pool.space,
        pinned=pool.pinned,
        alignment=pool.alignment,
    )
    if len(use.layouts) == 1:
        ((first, dtype, size, stride),) = use.layouts
        only = evolve(plain, dtype=dtype, size=size, stride=stride)
        if first == 0 and mul(storage_extent(only), dtype.itemsize) == pool.size:
            return only
    for dtype, _ in use.dtypes.most_common(1):
        length = _quotient(pool.size, dtype.itemsize)
        if length is not None:
            return evolve(plain, dtype=dtype, size=(length,))
    return plain


def _quotient(bytes: Expr, size: int) -> Expr | None:
    """Return ``bytes / size`` where it is whole whatever the symbols are, else ``None``."""
    if isinstance(bytes, int):
        return None if bytes % size else bytes // size
    if not isinstance(bytes, Operation):
        return None
    if bytes.op is ExprOp.ADD:
        parts = [_quotient(part, size) for part in bytes.args]
        total: Expr = 0
        for part in parts:
            if part is None:
                return None
            total = add(total, part)
        return total
    if bytes.op is ExprOp.MUL:
        for index, factor in enumerate(bytes.args):
            if isinstance(factor, int) and factor % size == 0:
                rest: Expr = factor // size
                for other in (*bytes.args[:index], *bytes.args[index + 1 :]):
                    rest = mul(rest, other)
                return rest
    return None
