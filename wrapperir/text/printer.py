"""Formatting of programs, lines, expressions and types as text."""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from types import MethodType
from typing import Any, TypeAlias, TypeVar

from wrapperir.diagnostics import Code, DiagnosticError, LinePath, Position
from wrapperir.ir import (
    SCHEMA_VERSION,
    AnyLine,
    Block,
    BodyLine,
    ConstantInput,
    DefinitionLine,
    Expr,
    Input,
    KernelDefinitionLine,
    MultiKernelLine,
    ProcessGroup,
    Program,
    Result,
    SymbolDefinitionLine,
    ValueType,
    keyword,
)
from wrapperir.text.definitions import format_definition
from wrapperir.text.limits import MAX_BLOCK_DEPTH, WRITE_ERRORS, Malformed, placed
from wrapperir.text.line_syntax import SYNTAX, Blocks
from wrapperir.text.literals import format_integer, format_string
from wrapperir.text.origin_section import format_origins
from wrapperir.text.part_printer import PartPrinter
from wrapperir.text.reader import parse_with_positions

S = TypeVar("S")
T = TypeVar("T")


def format_program(program: Program) -> str:
    """Return the text of a program; equal programs have equal text.

    A program need not be valid to be printed.

    Raises:
        DiagnosticError: the program holds something that text cannot spell, such as a name
            that is not an identifier; ``path`` says where.
    """
    return _printed(_Printer.program, program, lists_origins=False)


def format_with_positions(program: Program) -> tuple[str, Mapping[LinePath, Position]]:
    """Return the text of a program and the positions of its parts.

    The positions come from parsing the text.

    Raises:
        DiagnosticError: as :func:`format_program`.
    """
    text = format_program(program)
    return text, parse_with_positions(text).positions


def format_line(line: AnyLine) -> str:
    """Return the text of one line, with its blocks if it has any, at the left margin.

    Raises:
        DiagnosticError: as :func:`format_program`.
    """
    if isinstance(line, KernelDefinitionLine | MultiKernelLine):
        return _checked(lambda: "\n".join(format_definition(line, PartPrinter())))
    return _printed(_Printer.line, line, lists_origins=True)


def format_expr(expr: Expr) -> str:
    """Return the text of an expression.

    Raises:
        DiagnosticError: as :func:`format_program`.
    """
    return _checked(lambda: PartPrinter().expression(expr))


def format_type(type: ValueType) -> str:
    """Return the text of a type.

    Raises:
        DiagnosticError: as :func:`format_program`.
    """
    return _checked(lambda: PartPrinter().type(type))


def _printed(
    write: Callable[["_Printer", T], None], part: T, *, lists_origins: bool
) -> str:
    printer = _Printer(lists_origins=lists_origins)
    _checked(lambda: write(printer, part))
    return "\n".join(printer.lines)


def _checked(write: Callable[[], T]) -> T:
    try:
        return write()
    except WRITE_ERRORS as error:
        raise DiagnosticError(placed(error).written()) from None


def _format_tied(item: Input | ConstantInput) -> str:
    return "".join(f" tied {format_string(path)}" for path in item.tied)


_Row: TypeAlias = tuple[str, Callable[[object], Any], Callable[[Any], str]]
"""The text before a part of a line, the part's getter and its formatter."""


class _Rows(dict[type[BodyLine], tuple[list[_Row], Blocks]]):
    """The parts and blocks of each line kind; formatters are bound to one printer."""

    def __init__(self, part: PartPrinter) -> None:
        super().__init__()
        self._part = part

    def __missing__(self, kind: type[BodyLine]) -> tuple[list[_Row], Blocks]:
        syntax = SYNTAX[kind]
        rows: list[_Row] = []
        word = keyword(kind)
        if syntax.least == 1:
            rows.append(("%", attrgetter("result"), self._part.identifiers.__getitem__))
            word = f" = {word}"
        elif syntax.most != 0:
            get = attrgetter("result" if syntax.most == 1 else "results")
            rows.append(("", get, self._part.defined))
        for part in syntax.parts:
            format: Callable[[Any], str] = MethodType(part.format, self._part)
            if part.format is PartPrinter.name:
                format = self._part.identifiers.__getitem__  # the same, without a call
            rows.append((word + part.prefix, attrgetter(*part.fields), format))
            word = ""
        self[kind] = rows, syntax.blocks
        return self[kind]


class _Printer:
    """Appends the text of each line it is given to ``lines``."""

    def __init__(self, *, lists_origins: bool) -> None:
        self.lines: list[str] = []
        self._part = PartPrinter(lists_origins=lists_origins)
        self._rows = _Rows(self._part)
        self._depth = 0
        self._indent = ""

    def program(self, program: Program) -> None:
        part = self._part
        self.lines += [f"wrapperir {SCHEMA_VERSION}", ""]
        _each("definitions", program.definitions, self._definition)
        inputs = _each("inputs", program.inputs, self._format_input)
        self.lines.append(f"program @{part.name(program.name)}({', '.join(inputs)}) {{")
        self._indent = "  "
        _each("symbols", program.symbols, self._symbol)
        self.lines += _each("constants", program.constants, self._format_constant)
        self.lines += _each("groups", program.groups, _format_process_group)
        if program.symbols or program.constants or program.groups:
            self.lines.append("")
        _each("lines", program.lines, self.line)
        try:
            self.lines.append(f"  return {part.operands(program.outputs)}".rstrip(" "))
        except WRITE_ERRORS as error:
            raise placed(error, "outputs") from None
        self.lines.append("}")
        self.lines += [*format_origins(program, part), ""]

    def _definition(self, line: DefinitionLine) -> None:
        self.lines += [*format_definition(line, self._part), ""]

    def _format_input(self, item: Input) -> str:
        words = "mutated " if item.mutated else ""
        if item.donated:
            words += "donated "
        path = "" if item.path is None else f" from {format_string(item.path)}"
        path += _format_tied(item)
        if item.provenance is not None:
            path += self._part.origin(item.provenance)
        return f"%{self._part.name(item.name)}: {words}{self._part.type(item.type)}{path}"

    def _format_constant(self, item: ConstantInput) -> str:
        name, type = self._part.name(item.name), self._part.tensor(item.type)
        words = "mutated " if item.mutated else ""
        key = format_string(item.key)
        return f"  constant %{name}: {words}{type} = {key}{_format_tied(item)}"

    def _symbol(self, line: SymbolDefinitionLine) -> None:
        assert type(line) is SymbolDefinitionLine
        self.line(line)
        self.lines[-1] = self.lines[-1].replace("symbol_definition", "symbol", 1)

    def line(self, line: BodyLine) -> None:
        """Append a line of a body, with its blocks if it has any."""
        rows, blocks = self._rows[type(line)]
        text = self._indent
        for prefix, get, format in rows:
            value = get(line)
            if prefix or value:
                text += prefix + format(value)
        provenance = line.provenance
        origin = self._part.origins.get(id(provenance))
        if origin is None:
            origin = self._part.origin(provenance)
        if not blocks:
            self.lines.append(text + origin)
            return
        results: tuple[Result, ...] = getattr(line, "results")  # noqa: B009
        types = ", ".join([self._part.type(result.type) for result in results])
        types = f" : {types}" if types else ""
        self.lines.append(f"{text}{types}{origin} {{")
        for word, role in blocks:
            try:
                self._block(word, getattr(line, role))
            except WRITE_ERRORS as error:
                raise placed(error, role) from None
        self.lines.append(self._indent + "}")

    def _block(self, word: str, block: Block) -> None:
        part, indent = self._part, self._indent
        if self._depth == MAX_BLOCK_DEPTH:
            raise Malformed(
                Code.TOO_DEEP, f"more than {MAX_BLOCK_DEPTH} blocks within blocks"
            )
        parameters = ", ".join(
            [f"%{part.name(p.name)}: {part.type(p.type)}" for p in block.parameters]
        )
        self.lines.append(f"{indent}  {word} ({parameters}) {{")
        self._depth += 1
        self._indent = indent + "    "
        _each("lines", block.lines, self.line)
        self._indent = indent
        self._depth -= 1
        returned = f"{indent}    return {part.operands(block.results)}"
        self.lines += [returned.rstrip(" "), f"{indent}  }}"]


def _format_process_group(group: ProcessGroup) -> str:
    rank = "" if group.rank is None else f" rank {format_integer(group.rank)}"
    size = format_integer(group.size)
    return f"  group {format_string(group.name)} size {size}{rank}"


def _each(field: str, items: Iterable[T], write: Callable[[T], S]) -> list[S]:
    """Return what ``write`` returns for each item of a field.

    Raises:
        Malformed: an item cannot be written.
    """
    found: list[S] = []
    try:
        for item in items:
            found.append(write(item))
    except WRITE_ERRORS as error:
        raise placed(error, field, len(found)) from None
    return found
