"""The Pygments lexer of the text form."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pygments.lexer import RegexLexer
from pygments.token import (
    Comment,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    String,
    Whitespace,
)

from wrapperir.editor.tokens import TOKEN_RULES, TokenKind

TOKEN_TYPES: Mapping[TokenKind, Any] = {
    TokenKind.SPACE: Whitespace,
    TokenKind.REMARK: Comment.Single,
    TokenKind.SOURCE: Literal,
    TokenKind.STRING: String,
    TokenKind.VALUE: Name.Variable,
    TokenKind.GLOBAL: Name.Function,
    TokenKind.OPERATOR: Name.Namespace,
    TokenKind.NUMBER: Number,
    TokenKind.STATEMENT: Keyword,
    TokenKind.WORD: Keyword.Reserved,
    TokenKind.TYPE: Keyword.Type,
    TokenKind.FUNCTION: Name.Builtin,
    TokenKind.LITERAL: Keyword.Constant,
    TokenKind.NAME: Name,
    TokenKind.MARK: Operator,
}
"""Pygments' type of each kind of token."""


class WirLexer(RegexLexer):
    """Highlights programs in the text form."""

    name = "wrapperir"
    aliases: ClassVar[Sequence[str]] = ["wir", "wrapperir"]
    filenames: ClassVar[Sequence[str]] = ["*.wir"]
    flags = re.MULTILINE
    tokens: ClassVar[dict[str, Any]] = {
        "root": [(rule.pattern, TOKEN_TYPES[rule.kind]) for rule in TOKEN_RULES]
    }
