"""Pools in Python: a tensor for each, and a view for each place in it that is used."""

from attrs import evolve

from wrapperir.emit import Fragment, joined
from wrapperir.emit.pools import PoolLayout, PoolPlace, PoolTensor, layout_at
from wrapperir.ir import (
    AllocatePoolLine,
    DType,
    PlaceLine,
    PoolType,
    TensorType,
    add,
    divided,
    floordiv,
)
from wrapperir.text import format_type
from wrapperir_python.context import PythonContext


def emit_pool(context: PythonContext, line: AllocatePoolLine) -> None:
    """Append ``pool0 = empty_strided_cpu((512,), (1,), float32)``."""
    tensor = context.values[line.result]
    type = context.facts.pool_uses[line.result].tensor_type()
    context.writer.emit_line("{} = {}", tensor, context.format_allocation(type))
    context.pools.allocate(line.result, PoolTensor(tensor, type, line.type.size))


def emit_place(context: PythonContext, line: PlaceLine) -> None:
    """Append ``pool0_at_256_f32 = reinterpret_tensor(pool0, (8, 8), (8, 1), 64)``."""
    outer = context.pools[line.pool]
    place = PoolPlace(outer.pool, add(outer.begin, line.offset))
    _name_place(context, line.result, place, line.type)


def emit_pool_view(
    context: PythonContext, result: str, source: str, type: TensorType
) -> None:
    """Bind a name to a view of a buffer in a pool."""
    _name_place(context, result, context.pools[source], type)


def drop_name(context: PythonContext, name: str) -> None:
    """Drop a name; with the last name of a pool, append ``del`` of its tensors."""
    _emit_drops(context, [context.pools.drop(name)])


def leave_block(context: PythonContext) -> None:
    """Append ``del`` of the tensors that a block has made."""
    _emit_drops(context, context.pools.leave())


def _emit_drops(context: PythonContext, dropped: list[list[Fragment]]) -> None:
    for tensors in filter(None, dropped):
        context.writer.emit_line("del {}", joined(", ", tensors))


def _name_place(
    context: PythonContext, name: str, place: PoolPlace, type: TensorType | PoolType
) -> None:
    context.pools.add_name(name, place)
    if isinstance(type, TensorType):
        context.owned.add(name)
        view = context.values[name] = _find_view(context, place, type)
        context.writer.emit_comment(f"{name} is {view}: {format_type(type)}")


def _find_view(context: PythonContext, place: PoolPlace, type: TensorType) -> Fragment:
    """Return the tensor that has a layout, made by this block or one around it."""
    pool, layout = place.pool, layout_at(place.begin, type)
    source, old = _base(context, pool, type.dtype)  # this may be of that layout itself
    known = context.pools.known(pool, layout)
    if known is not None:
        return known
    first = layout[0]
    where = f"at_{first}" if isinstance(first, int) else "view"
    new = evolve(type, offset=divided(first, type.dtype.itemsize))
    suffix = f"{where}_{type.dtype.value}"
    return _emit_view(context, pool, layout, source, old, new, suffix)


def _base(
    context: PythonContext, pool: PoolTensor, dtype: DType
) -> tuple[Fragment, TensorType]:
    """Return a tensor of a dtype from which the pool's views can be made."""
    if dtype is pool.type.dtype:
        return pool.tensor, pool.type
    length = floordiv(pool.size, dtype.itemsize)
    type = evolve(pool.type, dtype=dtype, size=(length,), stride=(1,))
    layout = layout_at(0, type)
    known = context.pools.known(pool, layout)
    if known is None:
        source, old = pool.tensor, pool.type
        known = _emit_view(context, pool, layout, source, old, type, dtype.value)
    return known, type


def _emit_view(
    context: PythonContext,
    pool: PoolTensor,
    layout: PoolLayout,
    source: Fragment,
    old: TensorType,
    new: TensorType,
    suffix: str,
) -> Fragment:
    name = context.module.claim_numbered(f"{pool.tensor[:200]}_{suffix}")
    view = context.arguments.format_view(source, old, new)
    context.writer.emit_line("{} = {}", name, view)
    context.pools.add_view(pool, layout, name)
    return name
