"""Checks that views and places lie in their storage, where only the run knows."""

from typing import TYPE_CHECKING

from wrapperir.analysis.arithmetic.interval import UNBOUNDED
from wrapperir.analysis.arithmetic.polynomial import Polynomials
from wrapperir.analysis.sizes import storage_bytes
from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.ir.expr import Expr, add, mul, product
from wrapperir.ir.line import PlaceLine
from wrapperir.ir.types import PoolType, TensorType, contiguous_stride
from wrapperir_cpp.literals import format_int

if TYPE_CHECKING:
    from wrapperir_cpp.lines import CppLines


def bytes_of(type: TensorType | PoolType) -> Expr:
    """Return the bytes of a storage of this type, simply put."""
    if isinstance(type, PoolType) or type.stride != contiguous_stride(type.size):
        return storage_bytes(type)
    return mul(add(type.offset, product(type.size)), type.dtype.itemsize)


def check_view(lines: "CppLines", source: str, type: TensorType) -> None:
    """Append the check of a view, unless it surely lies in what it views."""
    home = lines.homes[source]
    begin, end = mul(type.offset, type.dtype.itemsize), bytes_of(type)
    room = None if source in lines.survey.layouts.changed else home.room
    if room is not None:
        _emit_check(lines, type, (begin, end), room)
        return
    root, handle = home.memory.root, home.memory.handle
    if root is None or handle is None or (isinstance(begin, int) and isinstance(end, int)):
        return
    before = lines.expressions.format_index(mul(root.offset, root.dtype.itemsize))
    size = format_int(root.dtype.itemsize)
    number = lines.line_number()
    found = fragment("room_of({}, {}, {}, {})", handle, before, size, number)
    _emit(lines, type, (begin, end), found)


def check_place(lines: "CppLines", line: PlaceLine) -> None:
    """Append the check of a place in a pool, unless it surely lies there."""
    room = lines.homes[line.pool].room
    assert room is not None  # of a pool it is known
    end = add(line.offset, bytes_of(line.type))
    check_allocation(lines, line.type)
    _emit_check(lines, line.type, (line.offset, end), room)


def check_allocation(lines: "CppLines", type: TensorType | PoolType) -> None:
    """Append the check of what offset a type has in a storage of its own."""
    if isinstance(type, TensorType) and not isinstance(type.offset, int):
        bytes = bytes_of(type)
        begin = mul(type.offset, type.dtype.itemsize)
        _emit(lines, type, (begin, bytes), lines.expressions.format_index(bytes))


def _emit_check(
    lines: "CppLines", type: TensorType | PoolType, part: tuple[Expr, Expr], room: Expr
) -> None:
    begin, end = part
    if isinstance(begin, int) and begin >= 0:
        if isinstance(end, int) and isinstance(room, int) and end <= room:
            return
        if _are_equal(end, room):
            return
    _emit(lines, type, part, lines.expressions.format_index(room))


def _are_equal(left: Expr, right: Expr) -> bool:
    """Say whether two numbers are the same, whatever symbols stand for."""
    polynomials = Polynomials(lambda name: UNBOUNDED, lambda name: None)
    return polynomials.of(left) == polynomials.of(right)


def _emit(
    lines: "CppLines",
    type: TensorType | PoolType,
    part: tuple[Expr, Expr],
    room: Fragment,
) -> None:
    begin, end = (lines.expressions.format_index(byte) for byte in part)
    sizes = fragment("nullptr")
    if isinstance(type, TensorType) and type.size:
        sizes = lines.memory.format_ints(type.size)
    lines.writer.emit_line(
        "check_inside({}, {}, {}, {}, {});", begin, end, room, sizes, lines.line_number()
    )
