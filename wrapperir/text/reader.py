"""Parsing of programs, expressions and types from text, with recovery from errors."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import evolve, frozen

from wrapperir.diagnostics import Code, DiagnosticError, LinePath, Position
from wrapperir.ir import (
    SCHEMA_VERSION,
    Argument,
    Block,
    BlockParameter,
    BodyLine,
    ConstantInput,
    DefinitionLine,
    Expr,
    Input,
    ProcessGroup,
    Program,
    SymbolDefinitionLine,
    ValueType,
)
from wrapperir.text.arguments import parse_operand
from wrapperir.text.cursor import Cursor
from wrapperir.text.definitions import read_definition
from wrapperir.text.expressions import parse_expression
from wrapperir.text.limits import MAX_BLOCK_DEPTH, Malformed
from wrapperir.text.line_source import (
    LineSource,
    check_encoding,
    opens_block,
    paused_collector,
)
from wrapperir.text.origin_section import read_origins
from wrapperir.text.positions import BlockPlaces, Positions, ProgramPlaces
from wrapperir.text.statements import (
    BlockStatement,
    blocks_opened_by,
    parse_constant_input,
    parse_input,
    parse_process_group,
    parse_statement,
    parse_symbol,
    unknown_statement,
)
from wrapperir.text.type_syntax import parse_value_type

T = TypeVar("T")


@frozen
class ParsedText:
    """A program and the positions of its parts in its text."""

    program: Program
    positions: Mapping[LinePath, Position]


def parse_program(text: str) -> Program:
    """Return the program that ``text`` spells; the time is linear in its length.

    Raises:
        DiagnosticError: ``text`` is malformed.  Every malformed line is reported, up to
            100 of them, except lines in a block that no known statement opens.
    """
    return _read(text).program


def parse_with_positions(text: str) -> ParsedText:
    """Return the program that ``text`` spells, with the positions of its parts.

    Raises:
        DiagnosticError: as :func:`parse_program`.
    """
    return _read(text)


def _read(text: str) -> ParsedText:
    check_encoding(text)
    with paused_collector():
        reader = _Reader(text)
        program = reader.read()
    return ParsedText(program, Positions(reader.lines.texts, reader.places))


def parse_expr(text: str) -> Expr:
    """Return the expression that ``text`` spells.

    Raises:
        DiagnosticError: ``text`` is not an expression.
    """
    return _parse_all(parse_expression, text)


def parse_type(text: str) -> ValueType:
    """Return the type that ``text`` spells.

    Raises:
        DiagnosticError: ``text`` is not a type.
    """
    return _parse_all(parse_value_type, text)


def _parse_all(parse: Callable[[Cursor], T], text: str) -> T:
    cursor = Cursor(text)
    try:
        found = parse(cursor)
        cursor.expect_end()
    except Malformed as error:
        raise DiagnosticError(error.read(0)) from None
    return found


class _Reader:
    """Reads one text.

    A line that does not parse is reported and left out; the lines after it are read, and
    those within it if it opens a block of a known kind.
    """

    def __init__(self, text: str) -> None:
        """Begin at the first line of ``text``."""
        self.lines = LineSource(text)
        self.places = ProgramPlaces()
        self._program = Program()

    def read(self) -> Program:
        """Return the program.

        Raises:
            DiagnosticError: the text is not a program; it has every error found.
        """
        self._read_header()
        section = read_origins(self.lines, self.places)
        definitions: list[DefinitionLine] = []
        found = False
        while (cursor := self.lines.next()) is not None:
            keyword = cursor.next
            line = self.lines.at - 1
            try:
                if keyword == "program" and not found:
                    found = True
                    self._read_program(cursor)
                elif keyword in ("kernel_definition", "multi_kernel") and not found:
                    definition = read_definition(cursor, self.lines, self.places)
                    if definition is not None:
                        definitions.append(definition)
                elif line == section.begin:
                    self.lines.at = section.end
                elif found:
                    raise cursor.malformed(
                        Code.MISPLACED_STATEMENT,
                        "nothing but one `origins` may follow the program",
                    )
                else:
                    known = ("kernel_definition", "multi_kernel", "program")
                    raise unknown_statement(cursor, known)
            except Malformed as error:
                self.lines.report(error, line)
                self.lines.skip_opened(line)
        if not found and not self.lines.diagnostics:
            missing = Malformed(Code.UNCLOSED_BLOCK, "the file ends before `program`")
            self.lines.report(missing, len(self.lines.texts) - 1)
        if self.lines.diagnostics:
            self.lines.fail()
        return evolve(
            self._program,
            definitions=tuple(definitions),
            places=tuple(section.places),
            origins=tuple(section.origins),
        )

    # Header, definitions, program

    def _read_header(self) -> None:
        cursor = self.lines.next()
        try:
            _parse_header(cursor or Cursor(""))
        except Malformed as error:
            raise DiagnosticError(error.read(max(0, self.lines.at - 1))) from None

    def _read_program(self, cursor: Cursor) -> None:
        places = self.places
        places.header = opened = self.lines.at - 1
        name, inputs = "", tuple[Input, ...]()
        try:
            name, inputs = self._parse_program_header(cursor, opened)
        except Malformed as error:
            self.lines.report(error, opened)
        symbols: list[SymbolDefinitionLine] = []
        constants: list[ConstantInput] = []
        groups: list[ProcessGroup] = []
        while (inner := self.lines.next()) is not None:
            line = self.lines.at - 1
            try:
                if inner.next == "symbol":
                    symbols.append(parse_symbol(inner))
                    places.symbols.append(line)
                elif inner.next == "constant":
                    constants.append(parse_constant_input(inner))
                    places.constants.append(line)
                elif inner.next == "group":
                    groups.append(parse_process_group(inner))
                    places.groups.append(line)
                else:
                    self.lines.at -= 1
                    break
            except Malformed as error:
                self.lines.report(error, line)
        lines, outputs = self._read_body(places, 0)
        self._program = Program(
            name=name,
            inputs=inputs,
            symbols=tuple(symbols),
            constants=tuple(constants),
            groups=tuple(groups),
            lines=lines,
            outputs=outputs,
        )

    def _parse_program_header(
        self, cursor: Cursor, line: int
    ) -> tuple[str, tuple[Input, ...]]:
        def take_input(cursor: Cursor) -> Input:
            start = cursor.start
            item = parse_input(cursor)
            self.places.parameters.append((line, start, cursor.start))
            return item

        cursor.advance()
        name = cursor.kernel()
        cursor.expect("(")
        inputs = cursor.listed(take_input, ")")
        cursor.expect("{")
        cursor.expect_end()
        return name, inputs

    # Bodies and blocks

    def _read_body(
        self, places: BlockPlaces, depth: int
    ) -> tuple[tuple[BodyLine, ...], tuple[Argument, ...]]:
        """Take the lines of a body up to its closing brace."""
        body: list[BodyLine] = []
        while (cursor := self.lines.next()) is not None:
            if cursor.next in ("return", "}"):
                return tuple(body), self._read_return(cursor, places)
            number = self.lines.at - 1
            try:
                line = self._read_statement(cursor, places, len(body), depth)
            except Malformed as error:
                self.lines.report(error, number)
                self.lines.skip_opened(number)
                continue
            if line is not None:
                places.lines.append(number)
                body.append(line)
        self.lines.unclosed(places.header)

    def _read_return(self, cursor: Cursor, places: BlockPlaces) -> tuple[Argument, ...]:
        line = self.lines.at - 1
        places.ending = line
        if cursor.next == "}":
            hint = "write `return` with the results before the brace"
            message = "the block has no `return`"
            error = cursor.malformed(Code.MISPLACED_STATEMENT, message, hint)
            self.lines.report(error, line)
            return ()
        results: list[Argument] = []
        cursor.advance()
        try:
            while cursor.kind != "end" or results:
                start = cursor.start
                results.append(parse_operand(cursor))
                places.results.append((line, start, cursor.start))
                if not cursor.accept(","):
                    break
            cursor.expect_end()
        except Malformed as error:
            self.lines.report(error, line)
        self._read_closing(places.header)
        return tuple(results)

    def _read_closing(self, opened: int) -> None:
        """Take the brace that closes a block."""
        cursor = self.lines.next()
        if cursor is None:
            self.lines.unclosed(opened)
        line = self.lines.at - 1
        if cursor.next == "}":
            self.lines.close(cursor)
            return
        message = "expected `}` after `return`"
        self.lines.report(cursor.malformed(Code.MISPLACED_STATEMENT, message), line)
        self.lines.at -= 1
        self.lines.skip_block(opened)

    def _read_statement(
        self, cursor: Cursor, places: BlockPlaces, index: int, depth: int
    ) -> BodyLine | None:
        line = self.lines.at - 1
        if cursor.next in ("symbol", "constant"):
            message = f"`{cursor.next}` comes before the lines of the program"
            hint = None
            if cursor.next == "symbol":
                hint = "in a body a symbol is defined with `symbol_definition`"
            raise cursor.malformed(Code.MISPLACED_STATEMENT, message, hint)
        try:
            statement = parse_statement(cursor)
        except Malformed as error:
            roles = blocks_opened_by(self.lines.texts[line])
            if not roles:
                raise
            self.lines.report(error, line)
            statement = None
        else:
            if not isinstance(statement, BlockStatement):
                return statement
            roles = statement.blocks
        if depth == MAX_BLOCK_DEPTH:
            message = f"more than {MAX_BLOCK_DEPTH} blocks within blocks"
            raise Malformed(Code.TOO_DEEP, message, cursor.start - 1, cursor.start)
        nested: dict[str, BlockPlaces] = {}
        blocks: list[Block] = []
        for word, role in roles:
            block = self._read_block(word, role, nested, line, depth + 1)
            if block is None:
                return None
            blocks.append(block)
        self._read_closing(line)
        places.nested[index] = nested
        return None if statement is None else statement.finish(blocks)

    def _read_block(
        self, word: str, role: str, nested: dict[str, BlockPlaces], opened: int, depth: int
    ) -> Block | None:
        """Take a block; ``None`` after an error, when the rest is skipped."""
        cursor = self.lines.next()
        if cursor is None:
            self.lines.unclosed(opened)
        line = self.lines.at - 1
        places = nested[role] = BlockPlaces(line)

        def parse_parameter(cursor: Cursor) -> BlockParameter:
            start = cursor.start
            name = cursor.value()
            cursor.expect(":")
            parameter = BlockParameter(name, parse_value_type(cursor))
            places.parameters.append((line, start, cursor.start))
            return parameter

        parameters: tuple[BlockParameter, ...] = ()
        is_role = cursor.next == word
        try:
            cursor.expect(word)
            cursor.expect("(")
            parameters = cursor.listed(parse_parameter, ")")
            cursor.expect("{")
            cursor.expect_end()
        except Malformed as error:
            self.lines.report(error, line)
            if not (is_role and opens_block(self.lines.texts[line])):
                self.lines.at = line
                self.lines.skip_block(opened)
                return None
        lines, results = self._read_body(places, depth)
        return Block(parameters=parameters, lines=lines, results=results)


def _parse_header(cursor: Cursor) -> None:
    hint = f"begin the file with `wrapperir {SCHEMA_VERSION}`"
    if cursor.next == "\ufeff":
        raise cursor.malformed(
            Code.BAD_ENCODING, "a byte order mark", "save the file without one"
        )
    if cursor.next != "wrapperir":
        raise cursor.malformed(
            Code.BAD_HEADER, "the file does not begin with `wrapperir`", hint
        )
    cursor.advance()
    if cursor.kind != "number":
        raise cursor.malformed(Code.BAD_HEADER, "expected the format's version", hint)
    if cursor.next != str(SCHEMA_VERSION):
        raise cursor.malformed(
            Code.UNKNOWN_VERSION,
            f"this release reads version {SCHEMA_VERSION} of the format only",
        )
    cursor.advance()
    cursor.expect_end()
