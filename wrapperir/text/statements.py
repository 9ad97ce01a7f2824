"""The lines of a body, read from text: one function a keyword.

Lines with nested blocks are in :mod:`wrapperir.text.block_statements`, those about memory
in :mod:`wrapperir.text.memory_statements`.
"""

from collections.abc import Callable, Iterable

from wrapperir.diagnostics import Code
from wrapperir.ir.line import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    BodyLine,
    CommentLine,
    ExternKernelLine,
    ItemOf,
    KernelCallLine,
    MultiOutputLine,
    OffsetOf,
    SizeOf,
    StrideOf,
    SymbolDefinitionLine,
    SymbolKind,
    SymbolSource,
    ValueOf,
)
from wrapperir.text.arguments import parse_arguments, parse_kernel_arguments
from wrapperir.text.block_statements import BLOCK_STATEMENTS, BlockStatement
from wrapperir.text.cursor import Cursor, suggestion
from wrapperir.text.expressions import parse_expression
from wrapperir.text.literals import parse_integer, parse_string
from wrapperir.text.malformed import Malformed, quoted
from wrapperir.text.memory_statements import MEMORY_NONE, MEMORY_ONE
from wrapperir.text.provenance import parse_ending
from wrapperir.text.stream_statements import (
    parse_on,
    parse_record_event,
    parse_wait_event,
)
from wrapperir.text.type_syntax import (
    parse_dotted,
    parse_value_type,
)

SYMBOL_KINDS = {kind.value: kind for kind in SymbolKind}
SOURCES_OF_DIM: dict[str, type[SizeOf | StrideOf]] = {"size": SizeOf, "stride": StrideOf}
SOURCES_OF_VALUE: dict[str, type[OffsetOf | ValueOf | ItemOf]] = {
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
    if keyword in BLOCK_STATEMENTS:
        cursor.advance()
        return BLOCK_STATEMENTS[keyword](cursor, results)
    if keyword == "extern_kernel":
        cursor.advance()
        return _extern_kernel(cursor, results)
    if keyword in ONE:
        if len(results) != 1:
            raise Malformed(
                Code.BAD_COUNT,
                f"`{keyword}` defines one value, not {len(results)}",
                start,
                cursor.end,
                f"write `%name = {keyword} ...`",
            )
        cursor.advance()
        return ONE[keyword](cursor, results[0])
    if keyword in NONE:
        if results:
            message = f"`{keyword}` defines no value"
            raise Malformed(Code.BAD_COUNT, message, start, cursor.end)
        cursor.advance()
        return NONE[keyword](cursor)
    raise unknown_statement(cursor, (*ONE, *NONE, "extern_kernel", *BLOCK_STATEMENTS))


def unknown_statement(cursor: Cursor, known: Iterable[str]) -> Malformed:
    """Return the error that no statement begins with the word that is next."""
    if cursor.kind != "name":
        return cursor.unexpected("a statement")
    return cursor.malformed(
        Code.UNKNOWN_STATEMENT,
        f"no statement here begins with {quoted(cursor.next)}",
        suggestion(cursor.next, known),
    )


def _multi_output(cursor: Cursor, result: str) -> BodyLine:
    source = cursor.value()
    indices: list[int] = []
    while cursor.accept("["):
        indices.append(parse_integer(cursor))
        cursor.expect("]")
    cursor.expect(":")
    type = parse_value_type(cursor)
    return MultiOutputLine(
        result=result,
        source=source,
        indices=tuple(indices),
        type=type,
        provenance=parse_ending(cursor),
    )


def _kernel_call(cursor: Cursor) -> BodyLine:
    kernel = cursor.kernel()
    arguments = parse_kernel_arguments(cursor)
    device, stream = parse_on(cursor)
    return KernelCallLine(
        kernel=kernel,
        arguments=arguments,
        device=device,
        stream=stream,
        provenance=parse_ending(cursor),
    )


def parse_symbol(cursor: Cursor) -> SymbolDefinitionLine:
    """Take what follows ``symbol`` or ``symbol_definition``."""
    symbol = cursor.name("a symbol")
    cursor.expect(":")
    kind = cursor.word(SYMBOL_KINDS, "a kind of symbol")
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
    of_dim, of_value = SOURCES_OF_DIM.get(kind), SOURCES_OF_VALUE.get(kind)
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


def _message(cursor: Cursor) -> str:
    return parse_string(cursor) if cursor.kind == "string" else ""


def _assert_size_stride(cursor: Cursor) -> BodyLine:
    buffer = cursor.value()
    cursor.expect("(")
    size = cursor.listed(parse_expression, ")")
    cursor.expect("(")
    stride = cursor.listed(parse_expression, ")")
    return AssertSizeStrideLine(
        buffer=buffer,
        size=size,
        stride=stride,
        message=_message(cursor),
        provenance=parse_ending(cursor),
    )


def _assert_alignment(cursor: Cursor) -> BodyLine:
    return AssertAlignmentLine(
        buffer=cursor.value(),
        bytes=parse_integer(cursor),
        message=_message(cursor),
        provenance=parse_ending(cursor),
    )


def _assert_scalar(cursor: Cursor) -> BodyLine:
    return AssertScalarLine(
        condition=parse_expression(cursor),
        message=_message(cursor),
        provenance=parse_ending(cursor),
    )


def _assert_not_nan(cursor: Cursor) -> BodyLine:
    return AssertNotNanLine(
        buffer=cursor.value(), message=_message(cursor), provenance=parse_ending(cursor)
    )


def _comment(cursor: Cursor) -> BodyLine:
    return CommentLine(text=parse_string(cursor), provenance=parse_ending(cursor))


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
    device, stream = parse_on(cursor)
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


ONE: dict[str, Callable[[Cursor, str], BodyLine]] = {
    **MEMORY_ONE,
    "multi_output": _multi_output,
    "record_event": parse_record_event,
}
"""Statements that define one value."""

NONE: dict[str, Callable[[Cursor], BodyLine]] = {
    **MEMORY_NONE,
    "kernel_call": _kernel_call,
    "wait_event": parse_wait_event,
    "symbol_definition": parse_symbol,
    "assert_size_stride": _assert_size_stride,
    "assert_alignment": _assert_alignment,
    "assert_scalar": _assert_scalar,
    "assert_not_nan": _assert_not_nan,
    "comment": _comment,
}
"""Statements that define no value."""
