"""Parsers of the lines of a body.

A table has the syntax of most kinds.  Lines with nested blocks are read by
:mod:`wrapperir.text.block_statements`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    AllocateLine,
    AllocatePoolLine,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    BodyLine,
    CommentLine,
    Expr,
    ExternKernelLine,
    FreeLine,
    ItemOf,
    KernelCallLine,
    MultiOutputLine,
    OffsetOf,
    PlaceLine,
    RecordEventLine,
    ReinterpretLine,
    ReuseLine,
    SizeOf,
    StrideOf,
    SymbolDefinitionLine,
    SymbolKind,
    SymbolSource,
    ValueOf,
    WaitEventLine,
    ZeroMode,
)
from wrapperir.text.arguments import parse_arguments, parse_kernel_arguments
from wrapperir.text.block_statements import BLOCK_STATEMENTS, BlockStatement
from wrapperir.text.cursor import Cursor, suggestion
from wrapperir.text.expressions import parse_expression
from wrapperir.text.limits import Malformed, quoted
from wrapperir.text.literals import parse_integer, parse_string
from wrapperir.text.provenance import parse_ending
from wrapperir.text.type_syntax import (
    parse_device,
    parse_dotted,
    parse_placed_type,
    parse_pool_type,
    parse_tensor_type,
    parse_value_type,
)

ZERO_MODES = {mode.value: mode for mode in ZeroMode}
_SYMBOL_KINDS = {kind.value: kind for kind in SymbolKind}
_SOURCES_OF_DIM: dict[str, type[SizeOf | StrideOf]] = {"size": SizeOf, "stride": StrideOf}
_SOURCES_OF_VALUE: dict[str, type[OffsetOf | ValueOf | ItemOf]] = {
    "offset": OffsetOf,
    "value": ValueOf,
    "item": ItemOf,
}


def parse_statement(cursor: Cursor) -> BodyLine | BlockStatement:
    """Take a line of a body.

    Raises:
        Malformed: the line does not parse.
    """
    results: list[str] = []
    start = cursor.start
    if cursor.kind == "value":
        results.append(cursor.value())
        while cursor.accept(","):
            results.append(cursor.value())
        cursor.expect("=")
    keyword = cursor.next
    parse_block = BLOCK_STATEMENTS.get(keyword)
    if parse_block is not None:
        cursor.advance()
        return parse_block(cursor, results)
    if keyword == "extern_kernel":
        cursor.advance()
        return _extern_kernel(cursor, results)
    one = _ONE.get(keyword)
    if one is None and keyword not in _NONE and keyword != "symbol_definition":
        known = (*_ONE, *_NONE, "symbol_definition", "extern_kernel", *BLOCK_STATEMENTS)
        raise unknown_statement(cursor, known)
    if one is not None and len(results) != 1:
        raise Malformed(
            Code.BAD_COUNT,
            f"`{keyword}` defines one value, not {len(results)}",
            start,
            cursor.end,
            f"write `%name = {keyword} ...`",
        )
    if one is None and results:
        message = f"`{keyword}` defines no value"
        raise Malformed(Code.BAD_COUNT, message, start, cursor.end)
    cursor.advance()
    if keyword == "symbol_definition":
        return parse_symbol(cursor)
    if keyword == "allocate" and cursor.next == "pool":
        hint = f"write `%{results[0]} = allocate_pool pool[...]`"
        raise cursor.malformed(Code.UNKNOWN_WORD, "`pool` is not an element type", hint)
    kind, syntax = _NONE[keyword] if one is None else one
    fields: dict[str, object] = {"result": results[0]} if results else {}
    for part in syntax:
        if isinstance(part, str):
            cursor.expect(part)
        else:
            name, parse = part
            fields[name] = parse(cursor)
    return kind(**fields, provenance=parse_ending(cursor))


def unknown_statement(cursor: Cursor, known: Iterable[str]) -> Malformed:
    """Return the error that the word that is next begins no statement."""
    if cursor.kind != "name":
        return cursor.unexpected("a statement")
    return cursor.malformed(
        Code.UNKNOWN_STATEMENT,
        f"no statement here begins with {quoted(cursor.next)}",
        suggestion(cursor.next, known),
    )


def parse_symbol(cursor: Cursor) -> SymbolDefinitionLine:
    """Take what follows ``symbol`` or ``symbol_definition``."""
    symbol = cursor.name("a symbol")
    cursor.expect(":")
    kind = cursor.word(_SYMBOL_KINDS, "a kind of symbol")
    lower: int | None = None
    upper: int | None = None
    if cursor.next != "=":
        if cursor.next != "..":
            lower = parse_integer(cursor)
        cursor.expect("..")
        if cursor.next != "=":
            upper = parse_integer(cursor)
    cursor.expect("=")
    source = _symbol_source(cursor)
    return SymbolDefinitionLine(
        symbol=symbol,
        kind=kind,
        lower=lower,
        upper=upper,
        source=source,
        provenance=parse_ending(cursor),
    )


def _symbol_source(cursor: Cursor) -> SymbolSource:
    kind = cursor.next
    of_dim, of_value = _SOURCES_OF_DIM.get(kind), _SOURCES_OF_VALUE.get(kind)
    if (of_dim is None and of_value is None) or not cursor.is_call():
        return parse_expression(cursor)
    cursor.advance()
    cursor.expect("(")
    name = cursor.value()
    if of_value is not None:
        source: SymbolSource = of_value(name)
    else:
        assert of_dim is not None
        cursor.expect(",")
        source = of_dim(name, parse_integer(cursor))
    cursor.expect(")")
    return source


def _extern_kernel(cursor: Cursor, results: list[str]) -> BodyLine:
    if len(results) > 1:
        raise cursor.malformed(
            Code.BAD_COUNT,
            f"`extern_kernel` defines one value at most, not {len(results)}",
            "give the result a tuple type and name its parts with `multi_output`",
        )
    operator = parse_dotted(cursor, "an operator such as `aten.mm.out`")
    arguments, keywords = parse_arguments(cursor)
    writes = _values_of(cursor, "writes")
    aliases = _values_of(cursor, "aliases")
    device, stream = parse_device(cursor), _stream(cursor)
    return ExternKernelLine(
        result=results[0] if results else None,
        type=parse_value_type(cursor) if cursor.accept(":") else None,
        operator=operator,
        arguments=arguments,
        keywords=keywords,
        writes=writes,
        aliases=aliases,
        device=device,
        stream=stream,
        provenance=parse_ending(cursor),
    )


def _values_of(cursor: Cursor, word: str) -> tuple[str, ...]:
    if not cursor.accept(word):
        return ()
    cursor.expect("(")
    return cursor.listed(Cursor.value, ")")


def _workspace(cursor: Cursor) -> ZeroMode | None:
    if not cursor.accept("workspace"):
        return None
    cursor.expect("(")
    mode = cursor.word(ZERO_MODES, "a zero mode")
    cursor.expect(")")
    return mode


def _stream(cursor: Cursor) -> int:
    if not cursor.accept("stream"):
        return 0
    cursor.expect("(")
    stream = parse_integer(cursor)
    cursor.expect(")")
    return stream


def _indices(cursor: Cursor) -> tuple[int, ...]:
    indices: list[int] = []
    while cursor.accept("["):
        indices.append(parse_integer(cursor))
        cursor.expect("]")
    return tuple(indices)


def _expressions(cursor: Cursor) -> tuple[Expr, ...]:
    cursor.expect("(")
    return cursor.listed(parse_expression, ")")


def _message(cursor: Cursor) -> str:
    return parse_string(cursor) if cursor.kind == "string" else ""


Part: TypeAlias = str | tuple[str, Callable[[Cursor], object]]
"""A word or mark, or a field and its parser."""

_BUFFER: Part = ("buffer", Cursor.value)
_SOURCE: Part = ("source", Cursor.value)
_TENSOR: Part = ("type", parse_tensor_type)
_WORKSPACE: Part = ("workspace", _workspace)
_MESSAGE: Part = ("message", _message)
_ON: tuple[Part, ...] = (("device", parse_device), ("stream", _stream))

_Syntax: TypeAlias = Mapping[str, tuple[Callable[..., BodyLine], tuple[Part, ...]]]
"""The class of each keyword, and what follows the keyword up to the provenance."""

_ONE: _Syntax = {
    "allocate": (AllocateLine, (_TENSOR, _WORKSPACE)),
    "allocate_pool": (AllocatePoolLine, (("type", parse_pool_type),)),
    "place": (
        PlaceLine,
        (
            *(("type", parse_placed_type), "in", ("pool", Cursor.value)),
            *("at", ("offset", parse_expression), _WORKSPACE),
        ),
    ),
    "reuse": (ReuseLine, (_SOURCE, "as", _TENSOR)),
    "reinterpret": (ReinterpretLine, (_SOURCE, "as", _TENSOR)),
    "multi_output": (
        MultiOutputLine,
        (_SOURCE, ("indices", _indices), ":", ("type", parse_value_type)),
    ),
    "record_event": (RecordEventLine, _ON),
}
"""Statements that define one value."""

_NONE: _Syntax = {
    "free": (FreeLine, (_BUFFER,)),
    "kernel_call": (
        KernelCallLine,
        (("kernel", Cursor.kernel), ("arguments", parse_kernel_arguments), *_ON),
    ),
    "wait_event": (WaitEventLine, (("event", Cursor.value), *_ON)),
    "assert_size_stride": (
        AssertSizeStrideLine,
        (_BUFFER, ("size", _expressions), ("stride", _expressions), _MESSAGE),
    ),
    "assert_alignment": (
        AssertAlignmentLine,
        (_BUFFER, ("bytes", parse_integer), _MESSAGE),
    ),
    "assert_scalar": (AssertScalarLine, (("condition", parse_expression), _MESSAGE)),
    "assert_not_nan": (AssertNotNanLine, (_BUFFER, _MESSAGE)),
    "comment": (CommentLine, (("text", parse_string),)),
}
"""Statements that define no value, but ``symbol_definition``."""
