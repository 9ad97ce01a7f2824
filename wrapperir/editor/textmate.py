"""The TextMate grammar of the text form, for VS Code, GitHub and others.

``python -m wrapperir.editor.textmate FOLDER`` writes an extension for VS Code.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from wrapperir.editor.tokens import TOKEN_RULES, TokenKind

SCOPE = "source.wir"
"""The grammar's scope."""

SCOPES: Mapping[TokenKind, str | None] = {
    TokenKind.SPACE: None,
    TokenKind.REMARK: "comment.line.number-sign.wir",
    TokenKind.SOURCE: "meta.embedded.wir",
    TokenKind.STRING: "string.quoted.double.wir",
    TokenKind.VALUE: "variable.other.wir",
    TokenKind.GLOBAL: "entity.name.function.wir",
    TokenKind.OPERATOR: "support.function.wir",
    TokenKind.NUMBER: "constant.numeric.wir",
    TokenKind.STATEMENT: "keyword.control.wir",
    TokenKind.WORD: "keyword.other.wir",
    TokenKind.TYPE: "storage.type.wir",
    TokenKind.FUNCTION: "support.function.builtin.wir",
    TokenKind.LITERAL: "constant.language.wir",
    TokenKind.NAME: "variable.parameter.wir",
    TokenKind.MARK: "keyword.operator.wir",
}
"""The scope of each kind of token, ``None`` for none."""


def format_textmate() -> str:
    """Return the grammar as JSON text.

    White space has a rule too: it is part of no other token.
    """
    patterns: list[dict[str, str]] = []
    for rule in TOKEN_RULES:
        scope = SCOPES[rule.kind]
        named = {} if scope is None else {"name": scope}
        patterns.append({**named, "match": rule.pattern})
    grammar = {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/"
        "tmlanguage.json",
        "name": "wrapperir",
        "scopeName": SCOPE,
        "fileTypes": ["wir"],
        "patterns": patterns,
    }
    return json.dumps(grammar, indent=2) + "\n"


def write_extension(folder: Path) -> None:
    """Write an extension for VS Code that highlights programs.

    Raises:
        OSError: the folder cannot be written.
    """
    manifest = {
        "name": "wrapperir",
        "displayName": "wrapperir",
        "version": "1.0.0",
        "publisher": "wrapperir",
        "engines": {"vscode": "^1.60.0"},
        "contributes": {
            "languages": [
                {
                    "id": "wir",
                    "extensions": [".wir"],
                    "configuration": "./language-configuration.json",
                }
            ],
            "grammars": [
                {
                    "language": "wir",
                    "scopeName": SCOPE,
                    "path": "./wir.tmLanguage.json",
                }
            ],
        },
    }
    configuration = {
        "comments": {"lineComment": "#"},
        "brackets": [["{", "}"], ["[", "]"], ["(", ")"]],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {
        "package.json": json.dumps(manifest, indent=2) + "\n",
        "language-configuration.json": json.dumps(configuration, indent=2) + "\n",
        "wir.tmLanguage.json": format_textmate(),
    }.items():
        (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m wrapperir.editor.textmate FOLDER")
    write_extension(Path(sys.argv[1]))
