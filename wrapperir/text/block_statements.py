"""Parsers of the lines that own blocks, up to their brace."""

import re
from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    Block,
    BlockParameter,
    BodyLine,
    ConditionalLine,
    Result,
    SubgraphCallLine,
    ValueType,
    WhileLoopLine,
)
from wrapperir.text.arguments import parse_kernel_argument, parse_kernel_arguments
from wrapperir.text.cursor import Cursor
from wrapperir.text.limits import Malformed
from wrapperir.text.line_source import opens_block
from wrapperir.text.provenance import parse_opening
from wrapperir.text.type_syntax import parse_value_type

Roles: TypeAlias = tuple[tuple[str, str], ...]
"""The words that begin a line's blocks, each with the line's field for the block."""

_ROLES: dict[str, Roles] = {
    "conditional": (("true", "on_true"), ("false", "on_false")),
    "while_loop": (("condition", "condition"), ("body", "body")),
    "subgraph_call": (("body", "body"),),
}
_KEYWORD = re.compile(rf"(?:^|=)[ \t]*({'|'.join(_ROLES)})\b")


def roles_opened_by(text: str) -> Roles:
    """Return the roles of the blocks that a malformed line opens; empty if none."""
    found = _KEYWORD.search(text) if opens_block(text) else None
    return () if found is None else _ROLES[found[1]]


@frozen
class BlockStatement:
    """A line that owns blocks, read up to its brace.

    ``finish`` builds the line from its blocks, which are in the order of ``roles``.
    """

    roles: Roles
    finish: Callable[..., BodyLine]


def parse_block_parameter(cursor: Cursor) -> BlockParameter:
    """Take ``%name: type``."""
    name = cursor.value()
    cursor.expect(":")
    return BlockParameter(name, parse_value_type(cursor))


def _results(cursor: Cursor, names: list[str]) -> tuple[Result, ...]:
    start = cursor.start
    types: list[ValueType] = []
    if cursor.accept(":"):
        types.append(parse_value_type(cursor))
        while cursor.accept(","):
            types.append(parse_value_type(cursor))
    if len(types) != len(names):
        message = f"the number of results is {len(names)}, that of types {len(types)}"
        raise Malformed(Code.BAD_COUNT, message, start, max(start + 1, cursor.start))
    return tuple(map(Result, names, types))


def _conditional(cursor: Cursor, names: list[str]) -> BlockStatement:
    predicate = parse_kernel_argument(cursor)
    operands = parse_kernel_arguments(cursor)
    results = _results(cursor, names)
    provenance = parse_opening(cursor)

    def finish(on_true: Block, on_false: Block) -> BodyLine:
        return ConditionalLine(
            results=results,
            predicate=predicate,
            operands=operands,
            on_true=on_true,
            on_false=on_false,
            provenance=provenance,
        )

    return BlockStatement(_ROLES["conditional"], finish)


def _while_loop(cursor: Cursor, names: list[str]) -> BlockStatement:
    carried = parse_kernel_arguments(cursor)
    invariant = parse_kernel_arguments(cursor)
    results = _results(cursor, names)
    provenance = parse_opening(cursor)

    def finish(condition: Block, body: Block) -> BodyLine:
        return WhileLoopLine(
            results=results,
            carried=carried,
            invariant=invariant,
            condition=condition,
            body=body,
            provenance=provenance,
        )

    return BlockStatement(_ROLES["while_loop"], finish)


def _subgraph_call(cursor: Cursor, names: list[str]) -> BlockStatement:
    name = cursor.kernel()
    operands = parse_kernel_arguments(cursor)
    results = _results(cursor, names)
    provenance = parse_opening(cursor)

    def finish(body: Block) -> BodyLine:
        return SubgraphCallLine(
            results=results, name=name, operands=operands, body=body, provenance=provenance
        )

    return BlockStatement(_ROLES["subgraph_call"], finish)


BLOCK_STATEMENTS: dict[str, Callable[[Cursor, list[str]], BlockStatement]] = {
    "conditional": _conditional,
    "while_loop": _while_loop,
    "subgraph_call": _subgraph_call,
}
