"""Parsers of types and devices.

``f32[s0, 64; stride 64, 1; offset 8]@cuda:0 {pinned, align = 64, space = comm, layout =
acme.tiled(16)}`` is a tensor, ``i64`` a scalar, ``(f32[4], i64)`` a tuple,
``opaque("a script object")`` an opaque value, ``pool[4096]@cuda:0 {align = 512}`` a pool of
4096 bytes and ``event@cuda:0`` an event.  Defaults are left
out: row-major strides, offset 0, device ``cpu``, unpinned memory, space ``global`` and
a pool's alignment of 64.
"""

import re
from collections.abc import Callable
from typing import Any

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    CPU,
    MAX_DEPTH,
    Device,
    DType,
    EventType,
    Expr,
    LayoutValue,
    OpaqueType,
    Operation,
    PoolType,
    ScalarType,
    TensorType,
    TupleType,
    ValueType,
    VendorLayout,
    contiguous_stride,
    depth,
)
from wrapperir.text.cursor import Cursor
from wrapperir.text.expressions import parse_expression
from wrapperir.text.limits import MAX_DEVICE_INDEX, MAX_INTEGER, MAX_RANK, Malformed
from wrapperir.text.literals import parse_integer, parse_string

DTYPES = {dtype.value: dtype for dtype in DType}

_SHAPE = re.compile(
    r'\[[^\]"{}#]*\](?:@[A-Za-z0-9_]+(?::[0-9]+)?)?(?: \{[^}"#]*\})?(?=[,)]| [a-z]|\Z)'
)
"""A tensor's type after its element type, if the next character shows its end."""


def parse_value_type(cursor: Cursor) -> ValueType:
    """Take a type.

    Raises:
        Malformed: no type follows.
    """
    if cursor.next == "(":
        return TupleType(cursor.nested(parse_value_type, "()"))
    word = cursor.word(_TYPES, "a type")
    if not isinstance(word, DType):
        return word(cursor)
    return _parse_tensor(cursor, word) if cursor.next == "[" else ScalarType(word)


def _parse_opaque(cursor: Cursor) -> OpaqueType:
    if not cursor.accept("("):
        return OpaqueType()
    description = parse_string(cursor)
    cursor.expect(")")
    return OpaqueType(description)


def parse_tensor_type(cursor: Cursor) -> TensorType:
    """Take a tensor's type."""
    return _parse_strided(cursor, cursor.word(DTYPES, "an element type"))


def _parse_strided(cursor: Cursor, dtype: DType) -> TensorType:
    if cursor.next != "[":
        raise cursor.unexpected("`[` of a tensor's type")
    return _parse_tensor(cursor, dtype)


def parse_pool_type(cursor: Cursor) -> PoolType:
    """Take a pool's type."""
    return cursor.word(_POOL, "a pool's type such as `pool[4096]`")(cursor)


def parse_placed_type(cursor: Cursor) -> TensorType | PoolType:
    """Take a tensor's or a pool's type."""
    word = cursor.word(_PLACED, "an element type or `pool`")
    return _parse_strided(cursor, word) if isinstance(word, DType) else word(cursor)


def _parse_pool(cursor: Cursor) -> PoolType:
    if not cursor.accept("["):
        raise cursor.unexpected("`[` and the bytes of the pool")
    size = parse_expression(cursor)
    cursor.expect("]")
    device = parse_device(cursor)
    return PoolType(size=size, device=device, **_parse_attributes(cursor, _POOL_WORDS))


def _parse_tensor(cursor: Cursor, dtype: DType) -> TensorType:
    shape = _SHAPE.match(cursor.text, cursor.start)
    if shape is None:
        return _parse_shape(cursor, dtype)
    types = cursor.memo.types
    key = (dtype, shape[0])
    found = types.get(key)
    if found is None:
        found = types[key] = _parse_shape(cursor, dtype)
    else:
        cursor.go_to(shape.end())
    return found


def _parse_shape(cursor: Cursor, dtype: DType) -> TensorType:
    start = cursor.start
    cursor.expect("[")
    size = _parse_extents(cursor)
    stride: tuple[Expr, ...] | None = None
    offset: Expr = 0
    accepts_stride = True
    while cursor.accept(";"):
        if accepts_stride and cursor.accept("stride"):
            stride = _parse_extents(cursor)
            accepts_stride = False
            continue
        if not cursor.accept("offset"):
            raise cursor.unexpected(
                "`stride` or `offset`" if accepts_stride else "`offset`"
            )
        offset = parse_expression(cursor)
        break
    if stride is None:
        stride = contiguous_stride(size)
        _check_derived(cursor, stride, start)
    cursor.expect("]")
    return TensorType(
        dtype=dtype,
        size=size,
        stride=stride,
        offset=offset,
        device=parse_device(cursor),
        **_parse_attributes(cursor, _TENSOR_WORDS),
    )


def _parse_extents(cursor: Cursor) -> tuple[Expr, ...]:
    extents: list[Expr] = []
    if cursor.next in ("]", ";"):
        return ()
    while True:
        if len(extents) == MAX_RANK:
            raise cursor.malformed(
                Code.TOO_DEEP, f"a tensor of more than {MAX_RANK} dimensions"
            )
        extents.append(parse_expression(cursor))
        if not cursor.accept(","):
            return tuple(extents)


def _check_derived(cursor: Cursor, stride: tuple[Expr, ...], start: int) -> None:
    """Refuse row-major strides that could not be written themselves."""
    for step in stride:
        if isinstance(step, Operation):
            if depth(step) > MAX_DEPTH:
                raise cursor.malformed(
                    Code.TOO_DEEP, f"row-major strides of more than {MAX_DEPTH} operations"
                )
        elif isinstance(step, int) and not -MAX_INTEGER <= step <= MAX_INTEGER:
            raise cursor.malformed(Code.BAD_NUMBER, "row-major strides are too large")


def parse_device(cursor: Cursor) -> Device:
    """Take ``@kind`` or ``@kind:index``; the default is the CPU."""
    if cursor.kind != "at":
        return CPU
    device = cursor.memo.devices.get(cursor.next)
    if device is None:
        kind, _, index = cursor.next[1:].partition(":")
        device = cursor.memo.devices[cursor.next] = _device(cursor, kind, index)
    cursor.advance()
    return device


def parse_bare_device(cursor: Cursor) -> Device:
    """Take ``kind`` or ``kind:index``."""
    kind = cursor.name("a device")
    if not cursor.accept(":"):
        return Device(kind)
    if cursor.next == "-":
        raise cursor.unexpected("a device's index")
    start, end = cursor.start, cursor.end
    index = parse_integer(cursor)
    if index > MAX_DEVICE_INDEX:
        raise Malformed(Code.BAD_NUMBER, "a device's index is too large", start, end)
    return Device(kind, index)


def _device(cursor: Cursor, kind: str, index: str) -> Device:
    if len(kind) > 255:
        raise cursor.malformed(Code.BAD_NAME, "a device kind of more than 255 characters")
    if len(index) > 9:
        raise cursor.malformed(Code.BAD_NUMBER, "a device's index is too large")
    if kind == "cpu" and not index:
        return CPU
    return Device(kind, int(index) if index else None)


_POOL = {"pool": _parse_pool}
_PLACED: dict[str, DType | Callable[[Cursor], PoolType]] = {**DTYPES, **_POOL}
_TYPES: dict[str, DType | Callable[[Cursor], ValueType]] = {
    **DTYPES,
    "opaque": _parse_opaque,
    "pool": _parse_pool,
    "event": lambda cursor: EventType(parse_device(cursor)),
}


def _parse_attributes(cursor: Cursor, known: tuple[str, ...]) -> dict[str, Any]:
    """Take the attributes in braces after a type, if any; return them by field."""
    found: dict[str, Any] = {}
    if cursor.next != "{" or cursor.opens_block():
        return found
    cursor.advance()
    while True:
        word = cursor.next
        if word not in known:
            *most, last = [f"`{word}`" for word in known]
            raise cursor.unexpected(f"{', '.join(most)} or {last}")
        name, parse = _ATTRIBUTES[word]
        if name in found:
            raise cursor.malformed(Code.MISPLACED_STATEMENT, f"`{word}` is given twice")
        cursor.advance()
        found[name] = parse(cursor)
        if not cursor.accept(","):
            break
    cursor.expect("}")
    return found


def _assigned(parse: Callable[[Cursor], object]) -> Callable[[Cursor], object]:
    def parse_assigned(cursor: Cursor) -> object:
        cursor.expect("=")
        return parse(cursor)

    return parse_assigned


def parse_dotted(cursor: Cursor, what: str) -> str:
    """Take a name of at least two identifiers joined by dots."""
    if cursor.kind != "name" or "." not in cursor.next:
        raise cursor.unexpected(what)
    name = cursor.next
    if len(name) > 1000:
        raise cursor.malformed(Code.BAD_NAME, f"{what} is longer than 1000 characters")
    cursor.advance()
    return name


def _parse_layout(cursor: Cursor) -> VendorLayout:
    name = parse_dotted(cursor, "a namespaced layout such as `acme.tiled`")
    if not cursor.accept("("):
        return VendorLayout(name)
    return VendorLayout(name, cursor.listed(_parse_layout_value, ")"))


def _parse_layout_value(cursor: Cursor) -> LayoutValue:
    return parse_string(cursor) if cursor.kind == "string" else parse_integer(cursor)


_ATTRIBUTES: dict[str, tuple[str, Callable[[Cursor], object]]] = {
    "pinned": ("pinned", lambda _: True),
    "align": ("alignment", _assigned(parse_integer)),
    "space": ("space", _assigned(lambda cursor: cursor.name("a memory space"))),
    "layout": ("layout", _assigned(_parse_layout)),
}
"""The words of attributes, each with its field and the parser of what follows."""
_TENSOR_WORDS = tuple(_ATTRIBUTES)
_POOL_WORDS = _TENSOR_WORDS[:-1]
