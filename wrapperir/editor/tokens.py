"""The tokens of the text form, as a table that highlighters are made from.

At each place of a line the first rule of :data:`TOKEN_RULES` that matches wins.  Patterns
mean the same in Python and in Oniguruma, which reads TextMate grammars.
"""

from enum import StrEnum

from attrs import frozen

from wrapperir.ir import LINES, DType, ExprOp, keyword


class TokenKind(StrEnum):
    """The kind of a token."""

    SPACE = "space"
    REMARK = "remark"
    SOURCE = "source"
    STRING = "string"
    VALUE = "value"
    GLOBAL = "global"
    OPERATOR = "operator"
    NUMBER = "number"
    STATEMENT = "statement"
    WORD = "word"
    TYPE = "type"
    FUNCTION = "function"
    LITERAL = "literal"
    NAME = "name"
    MARK = "mark"


@frozen
class TokenRule:
    """A kind of token, and the pattern that it matches."""

    kind: TokenKind
    pattern: str


STATEMENTS = (
    *sorted({keyword(line) for line in LINES}),
    *("program", "symbol", "constant", "group", "return", "origins"),
)
"""Words that begin a line, or a producer after ``=``."""

WORDS = (
    *("wrapperir", "true", "false", "condition", "body", "stacked"),
    *("grid", "config", "entry", "metadata", "source"),
    *("size", "choice", "select", "first", "forced", "benchmark", "recorded"),
    *("microseconds", "nearest_shape", "computed", "on", "rank"),
    *("workspace", "in", "as", "at", "writes", "reads", "aliases", "stream", "peer"),
    *("read_splits", "write_splits", "recordings", "from", "tied", "by", "place", "fused"),
    *("stride", "offset", "pinned", "align", "space", "layout"),
    *("mutated", "donated", "read", "write", "read_write", "descriptor", "constexpr"),
    *("uninitialized", "zero_on_call", "zero_per_program"),
    *("triton", "cpp", "and", "or", "not"),
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send"),
    *("receive", "sum", "avg", "product", "min", "max", "band", "bor", "bxor"),
)
"""Other words; ``true`` and ``false`` are also the blocks of a conditional."""

TYPES = (*(dtype.value for dtype in DType), "int", "float", "opaque", "pool", "event")

FUNCTIONS = (
    *(op.value for op in ExprOp if op.value.isidentifier()),
    *("size", "stride", "offset", "value", "item", "dtype", "device", "complex", "layout"),
    *("memory_format", "quantized_dtype"),
)
"""Names that are functions directly before a parenthesis."""

LITERALS = ("none", "inf", "nan", "true", "false")

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_END = r"(?![A-Za-z0-9_])"


def _any(words: tuple[str, ...]) -> str:
    return f"(?:{'|'.join(sorted(set(words), key=lambda word: (-len(word), word)))})"


TOKEN_RULES = (
    TokenRule(TokenKind.SOURCE, r"^[ \t]*\|[^\n]*"),
    TokenRule(TokenKind.SPACE, r"[ \t]+|\n"),
    TokenRule(TokenKind.REMARK, r"#[^\n]*"),
    TokenRule(TokenKind.STRING, r'"(?:[^"\\\n]|\\.)*"'),
    TokenRule(TokenKind.VALUE, rf"%{_NAME}"),
    TokenRule(TokenKind.GLOBAL, rf"@{_NAME}(?::[0-9]+)?"),
    TokenRule(TokenKind.NUMBER, rf"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?{_END}"),
    TokenRule(TokenKind.OPERATOR, rf"{_NAME}(?:\.{_NAME})+"),
    TokenRule(TokenKind.FUNCTION, rf"{_any(FUNCTIONS)}(?=\()"),
    TokenRule(TokenKind.STATEMENT, rf"{_any(STATEMENTS)}{_END}"),
    TokenRule(TokenKind.TYPE, rf"{_any(TYPES)}{_END}"),
    TokenRule(TokenKind.LITERAL, rf"{_any(LITERALS)}{_END}"),
    TokenRule(TokenKind.WORD, rf"{_any(WORDS)}{_END}"),
    TokenRule(TokenKind.NAME, _NAME),
    TokenRule(TokenKind.MARK, r"\*\*|//|==|!=|<=|>=|\.\.|[-+*/%<>=(){}\[\],;:]"),
)
