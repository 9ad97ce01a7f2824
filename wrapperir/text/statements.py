"""Parsing of the lines of a body, from the syntax of their kinds."""

import re
from collections.abc import Callable, Iterable, Mapping

from attrs import frozen

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    Block,
    BodyLine,
    ConstantInput,
    Input,
    ProcessGroup,
    Result,
    SymbolDefinitionLine,
    ValueType,
    keyword,
)
from wrapperir.ir.blocks import BLOCK_FIELDS
from wrapperir.text.cursor import Cursor, suggestion
from wrapperir.text.limits import Malformed, quoted
from wrapperir.text.line_source import opens_block
from wrapperir.text.line_syntax import SYNTAX, Blocks, LineSyntax, parse_steps
from wrapperir.text.literals import parse_integer, parse_string
from wrapperir.text.provenance import (
    names_origins,
    parse_ending,
    parse_given,
    parse_opening,
)
from wrapperir.text.type_syntax import parse_tensor_type, parse_value_type


@frozen
class BlockStatement:
    """A line that owns blocks, parsed up to its first block."""

    kind: Callable[..., BodyLine]
    fields: Mapping[str, object]
    blocks: Blocks

    def finish(self, blocks: Iterable[Block]) -> BodyLine:
        """Return the line with its blocks, in the order of ``blocks``."""
        roles = (role for _, role in self.blocks)
        return self.kind(**self.fields, **dict(zip(roles, blocks, strict=True)))


def parse_statement(cursor: Cursor) -> BodyLine | BlockStatement:
    """Take a line of a body, or the first line of one that owns blocks.

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
    syntax = _BY_KEYWORD.get(cursor.next)
    if syntax is None:
        raise unknown_statement(cursor, _BY_KEYWORD)
    count = len(results)
    if count < syntax.least or (syntax.most is not None and count > syntax.most):
        raise _wrong_count(cursor, syntax, count, start)
    cursor.advance()
    fields = parse_steps(cursor, syntax.steps)
    if syntax.most == 1 and results:
        fields["result"] = results[0]
    if not syntax.blocks:
        return syntax.kind(**fields, provenance=parse_ending(cursor))
    fields["results"] = _parse_results(cursor, results)
    fields["provenance"] = parse_opening(cursor)
    return BlockStatement(syntax.kind, fields, syntax.blocks)


def parse_symbol(cursor: Cursor) -> SymbolDefinitionLine:
    """Take ``symbol`` and what follows it, as after ``symbol_definition``."""
    cursor.advance()
    fields = parse_steps(cursor, SYNTAX[SymbolDefinitionLine].steps)
    return SymbolDefinitionLine(**fields, provenance=parse_ending(cursor))


def parse_input(cursor: Cursor) -> Input:
    """Take an input of the program, ``%x: mutated f32[8] from "mean"``.

    With a provenance, as ``%mm: donated f32[8] from(mm)``, that is last.
    """
    name = cursor.value()
    cursor.expect(":")
    mutated = cursor.accept("mutated")
    donated = cursor.accept("donated")
    type = parse_value_type(cursor)
    has_path = not names_origins(cursor) and cursor.accept("from")
    path = parse_string(cursor) if has_path else None
    return Input(
        name=name,
        type=type,
        mutated=mutated,
        donated=donated,
        path=path,
        tied=_parse_tied(cursor),
        provenance=parse_given(cursor),
    )


def parse_constant_input(cursor: Cursor) -> ConstantInput:
    """Take the rest of a line that begins with ``constant``."""
    cursor.advance()
    name = cursor.value()
    cursor.expect(":")
    mutated = cursor.accept("mutated")
    type = parse_tensor_type(cursor)
    cursor.expect("=")
    key = parse_string(cursor)
    tied = _parse_tied(cursor)
    cursor.expect_end()
    return ConstantInput(name=name, type=type, key=key, mutated=mutated, tied=tied)


def _parse_tied(cursor: Cursor) -> tuple[str, ...]:
    """Take the other paths of a tensor: ``tied "head.weight" tied "lm.weight"``."""
    tied: list[str] = []
    while cursor.accept("tied"):
        tied.append(parse_string(cursor))
    return tuple(tied)


def parse_process_group(cursor: Cursor) -> ProcessGroup:
    """Take ``group "tp" size 2 rank 0``."""
    cursor.advance()
    name = parse_string(cursor)
    cursor.expect("size")
    size = parse_integer(cursor)
    rank = parse_integer(cursor) if cursor.accept("rank") else None
    cursor.expect_end()
    return ProcessGroup(name=name, size=size, rank=rank)


def _wrong_count(cursor: Cursor, syntax: LineSyntax, count: int, start: int) -> Malformed:
    word, hint = cursor.next, None
    message = f"`{word}` defines no value"
    if syntax.least:
        message = f"`{word}` defines one value, not {count}"
        hint = f"write `%name = {word} ...`"
    elif syntax.most:
        message = f"`{word}` defines one value at most, not {count}"
        hint = "give the result a tuple type and name its parts with `multi_output`"
    return Malformed(Code.BAD_COUNT, message, start, cursor.end, hint)


def unknown_statement(cursor: Cursor, known: Iterable[str]) -> Malformed:
    """Return the error that the next word does not begin a statement."""
    if cursor.kind != "name":
        return cursor.unexpected("a statement")
    return cursor.malformed(
        Code.UNKNOWN_STATEMENT,
        f"no statement here begins with {quoted(cursor.next)}",
        suggestion(cursor.next, known),
    )


def _parse_results(cursor: Cursor, names: list[str]) -> tuple[Result, ...]:
    start = cursor.start
    types: list[ValueType] = []
    while cursor.accept("," if types else ":"):
        types.append(parse_value_type(cursor))
    if len(types) != len(names):
        message = f"the line defines {len(names)} results and gives {len(types)} types"
        raise Malformed(Code.BAD_COUNT, message, start, max(start + 1, cursor.start))
    return tuple(map(Result, names, types))


_BY_KEYWORD = {keyword(kind): syntax for kind, syntax in SYNTAX.items()}
_BLOCK_KEYWORD = re.compile(
    rf"(?:^|=)[ \t]*({'|'.join(keyword(kind) for kind in BLOCK_FIELDS)})\b"
)


def blocks_opened_by(text: str) -> Blocks:
    """Return the blocks of a malformed line that opens a block; empty if not known."""
    found = _BLOCK_KEYWORD.search(text) if opens_block(text) else None
    return () if found is None else _BY_KEYWORD[found[1]].blocks
