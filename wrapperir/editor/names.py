"""The names of values, kernels and symbols in a text, and renaming them.

Names are found token by token, so that a text with errors has names too.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from attrs import frozen

from wrapperir.diagnostics import DiagnosticError
from wrapperir.editor.tokens import FUNCTIONS, LITERALS, STATEMENTS, TYPES, WORDS
from wrapperir.ir import is_identifier
from wrapperir.text import parse_program
from wrapperir.text.cursor import Cursor

_KERNEL_WORDS = frozenset({"kernel_definition", "multi_kernel", "choice", "kernel_call"})
_DEFINITIONS = frozenset({"kernel_definition", "multi_kernel"})
_SYMBOL_WORDS = frozenset({"symbol", "symbol_definition"})
_KEYWORDS = frozenset((*STATEMENTS, *WORDS, *TYPES, *FUNCTIONS, *LITERALS))


class NameKind(StrEnum):
    """The kind of what a name stands for."""

    VALUE = "value"
    KERNEL = "kernel"
    SYMBOL = "symbol"


@frozen
class NameToken:
    """A name in a text: its line and columns, counted from 0, without ``%`` or ``@``."""

    kind: NameKind
    name: str
    line: int
    start: int
    end: int
    defines: bool = False


@frozen
class _Word:
    """A token of a line, with the two before it and the one after it."""

    kind: str
    text: str
    start: int
    before: str
    after: str
    in_origins: bool


def find_names(text: str) -> Sequence[NameToken]:
    """Return the names in a text, in its order.

    A value is defined where it is first named, a kernel by its definition, and a symbol
    by ``symbol`` or ``symbol_definition``; other symbols, such as parameters of kernels,
    are left out.  Linear in the length of the text.
    """
    found: list[NameToken] = []
    candidates: list[NameToken] = []
    symbols: set[str] = set()
    values: set[str] = set()
    for number, words in _sections(text):
        for word in words:
            end = word.start + len(word.text)
            if word.kind == "value":
                name = word.text[1:]
                place = (name, number, word.start + 1, end)
                found.append(NameToken(NameKind.VALUE, *place, name not in values))
                values.add(name)
            elif word.kind == "at" and word.before in _KERNEL_WORDS:
                place = (word.text[1:], number, word.start + 1, end)
                defines = word.before in _DEFINITIONS
                found.append(NameToken(NameKind.KERNEL, *place, defines))
            elif word.kind == "name" and _may_be_symbol(word):
                defines = word.before in _SYMBOL_WORDS and word.after == ":"
                place = (word.text, number, word.start, end)
                candidates.append(NameToken(NameKind.SYMBOL, *place, defines))
                symbols.update([word.text] if defines else [])
    found += [each for each in candidates if each.name in symbols]
    return sorted(found, key=lambda each: (each.line, each.start))


def _may_be_symbol(word: _Word) -> bool:
    is_keyword = word.after in ("=", "(") or word.in_origins or word.before == "space ="
    return is_identifier(word.text) and not is_keyword


def _sections(text: str) -> Iterator[tuple[int, list[_Word]]]:
    """Yield the words of each line in which names may be.

    Lines of kernels' sources and of the list of origins have none; of definitions of
    kernels only the first word and the name do.
    """
    section = ""
    depth = 0
    for number, line in enumerate(text.split("\n")):
        if line.lstrip().startswith("|"):
            continue
        words = list(_words(line))
        if not words:
            continue
        if depth == 0:
            section = words[0].text
        depth += sum({"{": 1, "}": -1}.get(word.text, 0) for word in words)
        depth = max(depth, 0)
        if section in _DEFINITIONS:
            yield number, [word for word in words if word.kind == "at"]
        elif section != "origins":
            yield number, words


def _words(line: str) -> Iterator[_Word]:
    cursor = Cursor(line)
    tokens: list[tuple[str, str, int]] = []
    while cursor.kind != "end":
        tokens.append((cursor.kind, cursor.next, cursor.start))
        cursor.advance()
    opened = ""
    for index, (kind, text, start) in enumerate(tokens):
        before = tokens[index - 1][1] if index else ""
        if before == "=" and index > 1 and tokens[index - 2][1] == "space":
            before = "space ="
        if text == "(" and before in ("from", "by", "device", "dtype", "layout"):
            opened = before
        elif text == ")":
            opened = ""
        after = tokens[index + 1][1] if index + 1 < len(tokens) else ""
        if after == "(" and line[start + len(text)] != "(":
            after = "apart ("  # `conditional s0 (%x)`: no function
        yield _Word(kind, text, start, before, after, bool(opened))


def name_at(names: Sequence[NameToken], line: int, column: int) -> NameToken | None:
    """Return the name at a place, or that ends there."""
    for each in names:
        is_sigil = each.kind is not NameKind.SYMBOL
        if each.line == line and each.start - is_sigil <= column <= each.end:
            return each
    return None


def same_names(names: Sequence[NameToken], wanted: NameToken) -> list[NameToken]:
    """Return each place of what a name stands for."""
    kind, name = wanted.kind, wanted.name
    return [each for each in names if each.kind is kind and each.name == name]


def definition_of(names: Sequence[NameToken], wanted: NameToken) -> NameToken | None:
    """Return the place that defines what a name stands for."""
    return next((each for each in same_names(names, wanted) if each.defines), None)


class RenameError(ValueError):
    """The error of a name that cannot be given."""


def rename(text: str, wanted: NameToken, new: str) -> str:
    """Return a text with another name for what ``wanted`` stands for.

    Raises:
        RenameError: the name is not one, or something has it, or the text has errors.
    """
    new = new.removeprefix({"value": "%", "kernel": "@"}.get(wanted.kind.value, ""))
    if not is_identifier(new):
        raise RenameError(f"{new[:80]!r} is not a name")
    if wanted.kind is NameKind.SYMBOL and {new, wanted.name} & _KEYWORDS:
        raise RenameError("a symbol with the name of a word cannot be renamed")
    try:
        parse_program(text)
    except DiagnosticError as error:
        raise RenameError("the text has errors; mend them first") from error
    names = find_names(text)
    if any(each.name == new and each.kind is wanted.kind for each in names):
        raise RenameError(f"something is named {new[:80]!r} already")
    lines = text.split("\n")
    for each in reversed(same_names(names, wanted)):
        line = lines[each.line]
        lines[each.line] = line[: each.start] + new + line[each.end :]
    made = "\n".join(lines)
    try:
        parse_program(made)
    except DiagnosticError as error:
        raise RenameError(f"{new[:80]!r} is a word of the text form") from error
    return made
