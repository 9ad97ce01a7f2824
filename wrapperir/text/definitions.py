"""Parsers of kernel definitions, line by line."""

from attrs import field, frozen

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    Access,
    BufferParameter,
    Constant,
    ConstexprParameter,
    DescriptorParameter,
    Expr,
    KernelChoice,
    KernelConfig,
    KernelDefinitionLine,
    KernelSize,
    Language,
    MultiKernelLine,
    Parameter,
    Provenance,
    ScalarParameter,
    Selection,
)
from wrapperir.text.arguments import parse_constant
from wrapperir.text.cursor import Cursor
from wrapperir.text.expressions import parse_expression
from wrapperir.text.literals import parse_integer, parse_string
from wrapperir.text.provenance import parse_opening
from wrapperir.text.selections import (
    ParameterNames,
    parse_choice,
    parse_selection,
    parse_size,
)
from wrapperir.text.statements import unknown_statement
from wrapperir.text.type_syntax import DTYPES

_LANGUAGES = {language.value: language for language in Language}
_ACCESSES = {access.value: access for access in Access}
_KERNEL_PARTS = ("grid", "constant", "config", "entry", "metadata", "source")
_MULTI_KERNEL_PARTS = ("size", "choice", "select")
_ONCE = frozenset({"grid", "entry", "source", "select"})


def parse_parameter(cursor: Cursor) -> Parameter:
    """Take ``name: read f32*``, ``name: i32`` or ``name: constexpr``.

    A descriptor is ``name: read descriptor f32[16, 32]``.
    """
    name = cursor.name("a parameter")
    cursor.expect(":")
    if cursor.accept("constexpr"):
        return ConstexprParameter(name)
    access = _ACCESSES.get(cursor.next)
    if access is None:
        return ScalarParameter(name, cursor.word(DTYPES, "a parameter's type"))
    cursor.advance()
    is_descriptor = cursor.accept("descriptor")
    dtype = cursor.word(DTYPES, "an element type")
    if is_descriptor:
        cursor.expect("[")
        block = cursor.listed(parse_integer, "]")
        return DescriptorParameter(name, dtype, block, access)
    cursor.expect("*")
    return BufferParameter(name, dtype, access)


def _binding(cursor: Cursor) -> tuple[str, Constant]:
    name = cursor.name("a name")
    cursor.expect("=")
    return name, parse_constant(cursor)


def _config(cursor: Cursor) -> KernelConfig:
    values: list[tuple[str, int | float | bool | str]] = []
    while cursor.kind != "end":
        start, end = cursor.start, cursor.end
        name, value = _binding(cursor)
        if value is None:
            cursor.start, cursor.end = start, end
            raise cursor.malformed(Code.UNEXPECTED, "a config value must not be `none`")
        values.append((name, value))
        if not cursor.accept(","):
            break
        if cursor.kind == "end":
            raise cursor.unexpected("a name")
    return KernelConfig(tuple(values))


@frozen
class _Order:
    """Checks the order of a definition's parts, and that some occur once."""

    parts: tuple[str, ...]
    seen: list[str] = field(factory=list[str])

    def check(self, cursor: Cursor) -> str:
        part = cursor.next
        if cursor.kind != "name" or part not in self.parts:
            raise unknown_statement(cursor, self.parts)
        last = self.seen[-1] if self.seen else part
        if part == last and self.seen and part in _ONCE:
            raise cursor.malformed(Code.MISPLACED_STATEMENT, f"`{part}` is given twice")
        if self.parts.index(part) < self.parts.index(last):
            raise cursor.malformed(
                Code.MISPLACED_STATEMENT,
                f"`{part}` comes before `{last}`",
                "the order is " + ", ".join(f"`{p}`" for p in self.parts),
            )
        self.seen.append(part)
        cursor.advance()
        return part


class KernelParts:
    """A kernel definition while its lines are read."""

    def __init__(self, cursor: Cursor) -> None:
        """Take the line that opens it, after its keyword."""
        self.name = cursor.kernel()
        self.language = cursor.word(_LANGUAGES, "a kernel language")
        cursor.expect("(")
        self.parameters = cursor.listed(parse_parameter, ")")
        self.provenance = parse_opening(cursor)
        self.grid: tuple[Expr, ...] = ()
        self.constants: list[tuple[str, Constant]] = []
        self.configs: list[KernelConfig] = []
        self.entry: str | None = None
        self.metadata: list[tuple[str, Constant]] = []
        self.source: list[str] | None = None
        self._order = _Order(_KERNEL_PARTS)

    def take(self, cursor: Cursor) -> tuple[str | int, ...]:
        """Take a line; return the path of the field that it sets.

        After ``("source",)`` the lines of the source follow, up to a brace.
        """
        part = self._order.check(cursor)
        path: tuple[str | int, ...] = (part,)
        if part == "grid":
            cursor.expect("=")
            cursor.expect("(")
            self.grid = cursor.listed(parse_expression, ")")
        elif part == "constant":
            path = ("constants", len(self.constants))
            self.constants.append(_binding(cursor))
        elif part == "config":
            path = ("configs", len(self.configs))
            self.configs.append(_config(cursor))
        elif part == "entry":
            cursor.expect("=")
            self.entry = cursor.name("the name of a function")
        elif part == "metadata":
            path = ("metadata", len(self.metadata))
            key = parse_string(cursor)
            cursor.expect("=")
            self.metadata.append((key, parse_constant(cursor)))
        else:
            self.source = []
            cursor.expect("{")
        cursor.expect_end()
        return path

    def finish(self, cursor: Cursor) -> KernelDefinitionLine:
        """Return the definition; ``cursor`` is at the brace that closes it.

        Raises:
            Malformed: a part is missing.
        """
        if self.entry is None or self.source is None:
            missing = "entry" if self.entry is None else "source"
            raise cursor.malformed(
                Code.MISPLACED_STATEMENT, f"kernel `@{self.name}` has no `{missing}`"
            )
        return KernelDefinitionLine(
            name=self.name,
            language=self.language,
            parameters=self.parameters,
            grid=self.grid,
            constants=tuple(self.constants),
            configs=tuple(self.configs),
            entry=self.entry,
            metadata=tuple(self.metadata),
            source="\n".join(self.source),
            provenance=self.provenance,
        )


class MultiKernelParts:
    """A multi-kernel while its lines are read."""

    def __init__(self, cursor: Cursor, known: bool = True) -> None:
        """Take the line that opens it, after its keyword.

        ``known`` is false for a placeholder of a line that did not parse.
        """
        self.name = cursor.kernel()
        cursor.expect("(")
        self.parameters = cursor.listed(parse_parameter, ")")
        self.provenance: Provenance | None = parse_opening(cursor)
        self.sizes: list[KernelSize] = []
        self.choices: list[KernelChoice] = []
        self.selection: Selection | None = None
        self._names = ParameterNames(self.parameters, known)
        self._order = _Order(_MULTI_KERNEL_PARTS)

    def take(self, cursor: Cursor) -> tuple[str | int, ...]:
        """Take a line; return the path of the field that it sets."""
        part = self._order.check(cursor)
        path: tuple[str | int, ...] = ("selection",)
        if part == "size":
            path = ("sizes", len(self.sizes))
            self.sizes.append(parse_size(cursor, self._names))
        elif part == "choice":
            path = ("choices", len(self.choices))
            self.choices.append(parse_choice(cursor, self._names))
        else:
            self.selection = parse_selection(cursor)
        cursor.expect_end()
        return path

    def finish(self, cursor: Cursor) -> MultiKernelLine:
        """Return the definition; ``cursor`` is at the brace that closes it.

        Raises:
            Malformed: it has no selection policy.
        """
        if self.selection is None:
            raise cursor.malformed(
                Code.MISPLACED_STATEMENT,
                f"multi-kernel `@{self.name}` has no `select`",
                "write `select first`",
            )
        return MultiKernelLine(
            name=self.name,
            parameters=self.parameters,
            sizes=tuple(self.sizes),
            choices=tuple(self.choices),
            selection=self.selection,
            provenance=self.provenance,
        )
