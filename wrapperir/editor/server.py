"""The language server for the text form, over pygls."""

from typing import Any, cast

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from wrapperir import __version__
from wrapperir.diagnostics import DiagnosticError, Position, Severity
from wrapperir.editor.document import EditedText, PlacedDiagnostic
from wrapperir.editor.formatting import find_blocks, format_text
from wrapperir.editor.names import (
    NameToken,
    RenameError,
    definition_of,
    name_at,
    rename,
    same_names,
)

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
}


class WirServer(LanguageServer):
    """Serves texts that are open in an editor; each is read again where it has changed."""

    def __init__(self) -> None:
        """Start without texts."""
        start = cast(Any, super()).__init__  # pygls gives some of its arguments no types
        start("wrapperir", __version__)
        self._texts: dict[str, EditedText] = {}

    def edited(self, uri: str) -> tuple[TextDocument, EditedText]:
        """Return an open text."""
        document = self.workspace.get_text_document(uri)
        known = self._texts.get(uri)
        if known is None or known.text != document.source:
            known = self._texts[uri] = EditedText(document.source)
        return document, known

    def forget(self, uri: str) -> None:
        """Drop a text that was closed."""
        self._texts.pop(uri, None)

    def name_at(self, uri: str, position: types.Position) -> NameToken | None:
        """Return the name at a place that a client gives."""
        document, edited = self.edited(uri)
        lines = edited.text.split("\n")
        at = document.position_codec.position_from_client_units(lines, position)
        return name_at(edited.names, at.line, at.character)

    def range_of(self, uri: str, line: int, start: int, end: int) -> types.Range:
        """Return a part of a line, whose columns count characters, as clients count."""
        document, edited = self.edited(uri)
        lines = edited.text.split("\n")
        return document.position_codec.range_to_client_units(
            lines,
            types.Range(types.Position(line, start), types.Position(line, end)),
        )

    def range_at(self, uri: str, place: Position) -> types.Range:
        """Return the place of a diagnostic as clients count."""
        start = place.column - 1
        return self.range_of(uri, place.line - 1, start, start + place.length)

    def whole(self, uri: str) -> types.Range:
        """Return the whole text."""
        _, edited = self.edited(uri)
        lines = edited.text.split("\n")
        last = self.range_of(uri, len(lines) - 1, 0, len(lines[-1])).end
        return types.Range(types.Position(0, 0), last)


def make_server() -> WirServer:
    """Return a server with its features."""
    server = WirServer()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(given: types.DidOpenTextDocumentParams) -> None:
        _publish(server, given.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(given: types.DidChangeTextDocumentParams) -> None:
        _publish(server, given.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(given: types.DidCloseTextDocumentParams) -> None:
        server.forget(given.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(given: types.HoverParams) -> types.Hover | None:
        uri = given.text_document.uri
        name = server.name_at(uri, given.position)
        text = None if name is None else server.edited(uri)[1].describe(name)
        if name is None or text is None:
            return None
        place = server.range_of(uri, name.line, name.start, name.end)
        content = types.MarkupContent(types.MarkupKind.Markdown, text)
        return types.Hover(content, place)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(given: types.DefinitionParams) -> types.Location | None:
        uri = given.text_document.uri
        name = server.name_at(uri, given.position)
        names = server.edited(uri)[1].names
        found = None if name is None else definition_of(names, name)
        if found is None:
            return None
        return types.Location(uri, server.range_of(uri, found.line, found.start, found.end))

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def references(given: types.ReferenceParams) -> list[types.Location]:
        uri = given.text_document.uri
        name = server.name_at(uri, given.position)
        names = server.edited(uri)[1].names
        return [
            types.Location(uri, server.range_of(uri, each.line, each.start, each.end))
            for each in ([] if name is None else same_names(names, name))
            if given.context.include_declaration or not each.defines
        ]

    @server.feature(types.TEXT_DOCUMENT_RENAME)
    def renamed(given: types.RenameParams) -> types.WorkspaceEdit | None:
        uri = given.text_document.uri
        name = server.name_at(uri, given.position)
        if name is None:
            return None
        try:
            rename(server.edited(uri)[1].text, name, given.new_name)
        except RenameError as error:
            shown = types.ShowMessageParams(types.MessageType.Error, str(error))
            server.window_show_message(shown)
            return None
        new = given.new_name.lstrip("%@")
        edits = [
            types.TextEdit(server.range_of(uri, each.line, each.start, each.end), new)
            for each in same_names(server.edited(uri)[1].names, name)
        ]
        return types.WorkspaceEdit({uri: edits})

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatted(given: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        uri = given.text_document.uri
        old = server.edited(uri)[1].text
        try:
            text = format_text(old)
        except DiagnosticError:
            return None  # its diagnostics are shown
        return [] if text == old else [types.TextEdit(server.whole(uri), text)]

    @server.feature(types.TEXT_DOCUMENT_FOLDING_RANGE)
    def folds(given: types.FoldingRangeParams) -> list[types.FoldingRange]:
        text = server.edited(given.text_document.uri)[1].text
        return [
            types.FoldingRange(first, last - 1)
            for first, last in find_blocks(text)
            if last > first + 1
        ]

    return server


def _publish(server: WirServer, uri: str) -> None:
    document, edited = server.edited(uri)
    found = [_diagnostic(server, uri, each) for each in edited.diagnostics]
    server.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(uri, found, document.version)
    )


def _diagnostic(server: WirServer, uri: str, found: PlacedDiagnostic) -> types.Diagnostic:
    what = found.diagnostic
    hint = "" if what.hint is None else f"\nhint: {what.hint}"
    return types.Diagnostic(
        range=server.range_at(uri, found.place),
        message=what.message + hint,
        severity=_SEVERITIES[what.severity],
        code=what.code.value,
        source="wrapperir",
    )
