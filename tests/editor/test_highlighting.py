"""The lexer and the TextMate grammar: of one table, and in agreement on programs."""

import importlib
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygments.token import Error, Keyword, Name, String

from wrapperir.editor.lexer import TOKEN_TYPES, WirLexer
from wrapperir.editor.textmate import SCOPES, format_textmate, write_extension
from wrapperir.editor.tokens import FUNCTIONS, STATEMENTS, WORDS
from wrapperir.ir import Program
from wrapperir.testing import programs
from wrapperir.text import format_program

ROOT = Path(__file__).parents[2]


def documented_programs() -> Iterator[str]:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        yield from re.findall(r"^```wir\n(.*?)^```$", page.read_text(), re.M | re.S)


def by_lexer(text: str) -> list[tuple[int, object]]:
    """Return the type of each character that is not space, by the lexer."""
    found: list[tuple[int, object]] = []
    for start, kind, token in WirLexer(
        ensurenl=False, stripnl=False
    ).get_tokens_unprocessed(text):
        found += [(start + n, kind) for n in range(len(token)) if not token[n].isspace()]
    return found


def by_grammar(text: str) -> list[tuple[int, object]]:
    """Return the same by the grammar, as TextMate reads it: a line at a time."""
    grammar = json.loads(format_textmate())
    types = {scope: TOKEN_TYPES[kind] for kind, scope in SCOPES.items()}
    rules = [(re.compile(x["match"]), types[x.get("name")]) for x in grammar["patterns"]]
    found: list[tuple[int, object]] = []
    offset = 0
    for line in text.split("\n"):
        at = 0
        while at < len(line):
            # The match that begins first wins, and of these the first rule.
            matches = [
                (match.start(), number, match)
                for number, (rule, _) in enumerate(rules)
                if (match := rule.search(line, at)) is not None and match[0]
            ]
            if not matches:
                break
            _, number, match = min(matches, key=lambda each: each[:2])
            found += [
                (offset + n, rules[number][1])
                for n in range(match.start(), match.end())
                if not line[n].isspace()
            ]
            at = match.end()
        offset += len(line) + 1
    return found


@pytest.mark.parametrize("text", documented_programs(), ids=lambda text: str(len(text)))
def test_documented_programs_are_highlighted_alike_and_without_errors(text: str) -> None:
    tokens = by_lexer(text)
    if "..." not in text:
        assert not [at for at, kind in tokens if kind is Error]
    assert [each for each in tokens if each[1] is not Error] == by_grammar(text)


@settings(max_examples=30)
@given(programs())
def test_drawn_programs_are_highlighted_alike_and_without_errors(program: Program) -> None:
    text = format_program(program)
    tokens = by_lexer(text)
    assert not [at for at, kind in tokens if kind is Error]
    assert tokens == by_grammar(text)


@given(st.text(alphabet='%@a1_."\\ \n|#(){}=-x', max_size=40))
def test_any_text_is_highlighted_alike(text: str) -> None:
    wanted = [each for each in by_lexer(text) if each[1] is not Error]
    assert wanted == by_grammar(text)


def test_every_word_of_the_grammar_is_highlighted() -> None:
    grammar = (ROOT / "docs/reference/grammar.lark").read_text()
    words = set(re.findall(r"/([a-z_]+)\\b/", grammar))
    for group in re.findall(r": /\(([a-z0-9_|]+)\)\(\?!", grammar):
        words |= set(group.split("|"))
    assert len(words) > 100
    for word in words:
        ((_, kind, _),) = WirLexer(ensurenl=False).get_tokens_unprocessed(word)
        assert kind is not Name, word
        assert kind[: len(Keyword)] == Keyword, word
    for function in FUNCTIONS:
        (_, kind, _), *_ = WirLexer().get_tokens_unprocessed(f"{function}(")
        assert kind is Name.Builtin


def test_words_are_those_of_the_grammar() -> None:
    grammar = (ROOT / "docs/reference/grammar.lark").read_text()
    for word in (*STATEMENTS, *WORDS):
        assert re.search(rf"\b{word}\b", grammar), word


def test_strings_and_sources_hold_no_tokens_of_their_own() -> None:
    text = '    | return %x; // "\n  comment "a # %x \\" b" # a remark\n'
    lexed = [
        (kind, token)
        for _, kind, token in WirLexer().get_tokens_unprocessed(text)
        if token.strip()
    ]
    assert lexed[0][1] == '    | return %x; // "'
    assert [token for kind, token in lexed if kind is String] == ['"a # %x \\" b"']
    assert lexed[-1][1] == "# a remark"


def test_pygments_finds_the_lexer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (point,) = project["entry-points"]["pygments.lexers"].values()
    module, _, name = point.partition(":")
    assert getattr(importlib.import_module(module), name) is WirLexer
    assert WirLexer.aliases[0] == "wir"


def test_the_extension_names_its_files(tmp_path: Path) -> None:
    write_extension(tmp_path / "wrapperir")
    manifest = json.loads((tmp_path / "wrapperir/package.json").read_text())
    (grammar,) = manifest["contributes"]["grammars"]
    (language,) = manifest["contributes"]["languages"]
    written = json.loads((tmp_path / "wrapperir" / grammar["path"]).read_text())
    assert written["scopeName"] == grammar["scopeName"]
    json.loads((tmp_path / "wrapperir" / language["configuration"]).read_text())
