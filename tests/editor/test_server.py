"""The language server, driven by a client over its standard input and output."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

ROOT = Path(__file__).parents[2]
URI = "file:///work.wir"
# Clients count UTF-16 code units: the emoji are two each.
TEXT = """\
wrapperir 1

program @main(%x: f32[s0]) {
  symbol s0: int 2..9 = size(%x, 0)

  %a = extern_kernel aten.sin.default(%x) : f32[s0] from(sin)
  comment "\U0001f680\U0001f680" %a
  %b = extern_kernel aten.cos.default(%a) : f32[s0]
  free %a
  return %b
}

origins {
  place 0: "model.py" 12 "forward"
  sin: aten.sin.default at 0
}
"""
VALID = TEXT.replace('" %a', '"')


class Editor:
    """A client with one open text."""

    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.messages: list[str] = []
        self.version = 0

    async def show(self, text: str) -> list[types.Diagnostic]:
        """Open or change the text; return its diagnostics."""
        self.version += 1
        if self.version == 1:
            item = types.TextDocumentItem(URI, "wir", self.version, text)
            self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        else:
            document = types.VersionedTextDocumentIdentifier(self.version, URI)
            change = types.TextDocumentContentChangeWholeDocument(text)
            self.client.text_document_did_change(
                types.DidChangeTextDocumentParams(document, [change])
            )
        found = await asyncio.wait_for(self.published.get(), 60)
        assert found.version == self.version
        return list(found.diagnostics)


DOCUMENT = types.TextDocumentIdentifier(URI)


def at(line: int, character: int) -> types.Position:
    return types.Position(line, character)


def serve(run: Callable[[Editor], Awaitable[None]]) -> None:
    async def main() -> None:
        client = LanguageClient("tests", "1")
        editor = Editor(client)

        def published(given: types.PublishDiagnosticsParams) -> None:
            editor.published.put_nowait(given)

        def shown(given: types.ShowMessageParams) -> None:
            editor.messages.append(given.message)

        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(published)
        client.feature(types.WINDOW_SHOW_MESSAGE)(shown)

        given = os.environ.get("PYTHONPATH", "")
        paths = os.pathsep.join([str(ROOT), str(ROOT / "emitters"), given])
        environment = {**os.environ, "PYTHONPATH": paths}
        await client.start_io(sys.executable, "-m", "wrapperir.cli", "lsp", env=environment)
        await client.initialize_async(
            types.InitializeParams(capabilities=types.ClientCapabilities())
        )
        client.initialized(types.InitializedParams())
        try:
            await run(editor)
        finally:
            await client.shutdown_async(None)
            client.exit(None)
            await cast(Any, client).stop()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_diagnostics_come_as_one_types() -> None:
    async def run(editor: Editor) -> None:
        (malformed,) = await editor.show(TEXT)
        assert malformed.code == "WIR003"
        assert malformed.severity is types.DiagnosticSeverity.Error
        assert malformed.range == types.Range(at(6, 17), at(6, 19))
        assert await editor.show(VALID) == []
        late, *_ = await editor.show(VALID.replace("return %b", "return %a, %b"))
        assert late.code == "WIR201"
        assert late.range == types.Range(at(9, 9), at(9, 11))
        assert await editor.show("") != []

    serve(run)


def test_names_are_described_followed_and_renamed() -> None:
    async def run(editor: Editor) -> None:
        await editor.show(VALID)
        client = editor.client

        async def hover(line: int, character: int) -> str | None:
            given = types.HoverParams(DOCUMENT, at(line, character))
            found = await client.text_document_hover_async(given)
            if found is None:
                return None
            assert isinstance(found.contents, types.MarkupContent)
            return found.contents.value

        value = await hover(7, 39)
        assert value is not None
        assert value.startswith("```wir\n%a: f32[s0]\n```")
        assert "alive at lines 6-8" in value
        assert "from `model.py:12" in value
        symbol = await hover(7, 48)
        assert symbol == "```wir\nsymbol s0: int 2..9 = size(%x, 0)\n```"
        assert await hover(7, 10) is None
        await editor.show(VALID.replace("f32[s0])", 'f32[s0] from "fc.weight")'))
        held = await hover(5, 39)
        assert held is not None
        assert held.startswith('```wir\n%x: f32[s0] from "fc.weight"\n```')
        await editor.show(VALID)

        place = types.DefinitionParams(DOCUMENT, at(8, 8))
        found = await client.text_document_definition_async(place)
        assert isinstance(found, types.Location)
        assert found.range == types.Range(at(5, 3), at(5, 4))

        context = types.ReferenceContext(include_declaration=True)
        uses = await client.text_document_references_async(
            types.ReferenceParams(context, DOCUMENT, at(8, 8))
        )
        assert uses is not None
        assert [each.range.start.line for each in uses] == [5, 7, 8]

        edit = await client.text_document_rename_async(
            types.RenameParams(DOCUMENT, at(8, 8), "%sine")
        )
        assert edit is not None
        assert edit.changes is not None
        assert len(edit.changes[URI]) == 3
        assert {each.new_text for each in edit.changes[URI]} == {"sine"}

        refused = types.RenameParams(DOCUMENT, at(8, 8), "b")
        assert await client.text_document_rename_async(refused) is None
        assert editor.messages == ["something is named 'b' already"]

    serve(run)


def test_texts_are_formatted_and_folded() -> None:
    async def run(editor: Editor) -> None:
        await editor.show(VALID.replace("free %a", "free    %a # it goes"))
        client = editor.client
        options = types.FormattingOptions(tab_size=2, insert_spaces=True)
        given = types.DocumentFormattingParams(DOCUMENT, options)
        edits = await client.text_document_formatting_async(given)
        assert edits is not None
        (edit,) = edits
        assert edit.range == types.Range(at(0, 0), at(16, 0))
        assert edit.new_text == VALID.replace("free %a", "free %a  # it goes")
        folds = await client.text_document_folding_range_async(
            types.FoldingRangeParams(DOCUMENT)
        )
        assert folds is not None
        assert [(x.start_line, x.end_line) for x in folds] == [(2, 9), (12, 14)]
        await editor.show(TEXT)
        assert await client.text_document_formatting_async(given) is None

    serve(run)


def test_columns_are_counted_as_the_client_counts() -> None:
    async def run(editor: Editor) -> None:
        await editor.show(VALID)
        # Two emoji, each of two units.
        text = VALID.replace("free %a", 'assert_scalar s0 "\U0001f680\U0001f680" oops')
        (found,) = await editor.show(text)
        assert found.range.start == at(8, 26)
        (found,) = await editor.show(text.replace("\U0001f680", "r"))
        assert found.range.start == at(8, 24)

    serve(run)


def test_without_pygls_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.cli.files import invoke

    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    monkeypatch.delitem(sys.modules, "wrapperir.editor.server", raising=False)
    result = invoke("lsp")
    assert result.exit_code == 1
    assert "error WIR916: this needs pygls" in result.stderr
    assert "pip install 'wrapperir[editor]'" in result.stderr
