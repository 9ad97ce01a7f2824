"""Checks in the run that views and places lie in their storage."""

from wrapperir.analysis.arithmetic import UNBOUNDED, Polynomials
from wrapperir.emit import Fragment, fragment
from wrapperir.ir import Expr, PlaceLine, PoolType, TensorType, add, mul
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_int
from wrapperir_cpp.value_storage import bytes_of


def emit_view_check(context: Context, source: str, type: TensorType) -> None:
    """Append the check that a view lies in what it views, unless that is known."""
    view = context.values[source]
    begin, end = mul(type.offset, type.dtype.itemsize), bytes_of(type)
    room = None if source in context.layouts.changed else view.room
    if room is not None:
        _emit_check_unless_known(context, type, (begin, end), room)
        return
    root, made = view.storage.root, view.storage.handle
    if root is None or made is None or (isinstance(begin, int) and isinstance(end, int)):
        return
    before = context.expressions.format_index(mul(root.offset, root.dtype.itemsize))
    size = format_int(root.dtype.itemsize)
    found = fragment("room_of({}, {}, {}, {})", made, before, size, context.line_number())
    _emit_check(context, type, (begin, end), found)


def emit_place_check(context: Context, line: PlaceLine) -> None:
    """Append the check of a place in a pool, unless it is known to lie there."""
    room = context.values[line.pool].room
    assert room is not None  # a pool's is known
    end = add(line.offset, bytes_of(line.type))
    emit_offset_check(context, line.type)
    _emit_check_unless_known(context, line.type, (line.offset, end), room)


def emit_offset_check(context: Context, type: TensorType | PoolType) -> None:
    """Append the check of a type's offset in a storage of its own."""
    if isinstance(type, TensorType) and not isinstance(type.offset, int):
        bytes = bytes_of(type)
        begin = mul(type.offset, type.dtype.itemsize)
        _emit_check(context, type, (begin, bytes), context.expressions.format_index(bytes))


def _emit_check_unless_known(
    context: Context, type: TensorType | PoolType, part: tuple[Expr, Expr], room: Expr
) -> None:
    begin, end = part
    if isinstance(begin, int) and begin >= 0:
        if isinstance(end, int) and isinstance(room, int) and end <= room:
            return
        polynomials = Polynomials(lambda name: UNBOUNDED, lambda name: None)
        if polynomials.of(end) == polynomials.of(room):
            return
    _emit_check(context, type, part, context.expressions.format_index(room))


def _emit_check(
    context: Context, type: TensorType | PoolType, part: tuple[Expr, Expr], room: Fragment
) -> None:
    begin, end = (context.expressions.format_index(byte) for byte in part)
    sizes = context.format_ints(type.size if isinstance(type, TensorType) else ())
    parts = begin, end, room, sizes, context.line_number()
    context.writer.emit_line("check_inside({}, {}, {}, {}, {});", *parts)
