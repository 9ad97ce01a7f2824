"""Schemas of PyTorch's operators, as they are registered where the program is emitted."""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, cast

from attrs import frozen

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.ir.identifier import is_operator
from wrapperir.ir.line import Argument, ExternKernelLine, TorchEnum
from wrapperir.ir.types import DType

if TYPE_CHECKING:
    from torch._C import FunctionSchema, JitType
    from torch._ops import OpOverload


class Kind(StrEnum):
    """What a type of a schema is; the value is its name in PyTorch."""

    TENSOR = "Tensor"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    SYM_BOOL = "SymBool"
    SCALAR = "number"
    COMPLEX = "complex"
    STRING = "str"
    DTYPE = "ScalarType"
    LAYOUT = "Layout"
    MEMORY_FORMAT = "MemoryFormat"
    DEVICE = "Device"
    GENERATOR = "Generator"
    OPTIONAL = "Optional"
    LIST = "List"
    OTHER = "other"


@frozen
class SchemaType:
    """A type of a schema: ``element`` is that of an optional or list.

    ``length`` is how many elements a list has, where the schema says so.
    """

    kind: Kind
    element: "SchemaType | None" = None
    length: int | None = None

    @property
    def required(self) -> "SchemaType":
        """The type without its optional."""
        return self.element if self.kind is Kind.OPTIONAL and self.element else self


@frozen
class Parameter:
    """A parameter of an operator; ``default`` is given where ``has_default``."""

    name: str
    type: SchemaType
    keyword_only: bool
    is_out: bool
    is_written: bool
    has_default: bool
    default: Argument = None


@frozen
class Schema:
    """An operator: ``name`` is ``aten::mm``; ``overload`` is empty for ``default``.

    ``returned`` are the names of the parameters that the results are, each ``None`` where
    it is none of them.
    """

    name: str
    overload: str
    parameters: tuple[Parameter, ...]
    results: tuple[SchemaType, ...]
    returned: tuple[str | None, ...]


_TYPE = re.compile(r"(Optional|List)\[(.*)\]")
_DUNDER_OPERATORS = frozenset(
    f"__{inplace}{name}__"
    for inplace in ("", "i")
    for name in ("and", "or", "xor", "lshift", "rshift")
)
# Defaults of these types are the numbers of C++ enumerations.
_DTYPE_DEFAULTS = {
    **{0: DType.U8, 1: DType.I8, 2: DType.I16, 3: DType.I32, 4: DType.I64},
    **{5: DType.F16, 6: DType.F32, 7: DType.F64, 11: DType.BOOL, 15: DType.BF16},
}
_MEMORY_FORMAT_DEFAULTS = (
    *("contiguous_format", "preserve_format"),
    *("channels_last", "channels_last_3d"),
)


def refused(message: str) -> DiagnosticError:
    """Return the error for an operator call that has no form in C++."""
    return DiagnosticError(Diagnostic(code=Code.UNSUPPORTED_FEATURE, message=message))


def find_schema(operator: str) -> Schema:
    """Return the schema of an operator such as ``aten.mm.out``.

    Raises:
        DiagnosticError: WIR705, it is no operator's name, or PyTorch has none of it.
    """
    # What a library of the user's defines may be another operator the next time.
    return (_cached if operator.startswith("aten.") else _lookup)(operator)


def _lookup(operator: str) -> Schema:
    import torch
    from torch._ops import OpOverload

    parts = operator.split(".")
    hidden = any(part.startswith("__") and part not in _DUNDER_OPERATORS for part in parts)
    if not is_operator(operator) or len(parts) != 3 or hidden:
        raise refused(f"{operator[:80]!a} is not namespace.operator.overload")
    namespace, name, overload = parts
    try:
        packet: object = getattr(getattr(torch.ops, namespace), name)
        found: object = getattr(packet, overload, None)
    except (AttributeError, RuntimeError):
        found = None
    if not isinstance(found, OpOverload):
        raise refused(f"PyTorch has no operator {operator[:200]}")
    return _schema_of(cast("OpOverload[..., object]", found)._schema)  # pyright: ignore[reportPrivateUsage]


_cached = cache(_lookup)


def bind_arguments(
    schema: Schema, line: ExternKernelLine
) -> tuple[tuple[Parameter, Argument], ...]:
    """Return the argument for each parameter; defaults where the call gives none.

    Raises:
        DiagnosticError: WIR705, an argument is missing, or has no parameter.
    """
    positional = [p for p in schema.parameters if not p.keyword_only]
    if len(line.arguments) > len(positional):
        raise refused(f"{line.operator} takes {len(positional)} arguments by position")
    given: dict[str, Argument] = {
        parameter.name: argument
        for parameter, argument in zip(positional, line.arguments, strict=False)
    }
    known = {parameter.name for parameter in schema.parameters}
    for name, argument in line.keywords:
        if name not in known:
            raise refused(f"{line.operator} has no argument {name[:80]!a}")
        if name in given:
            raise refused(f"{line.operator} is given {name[:80]!a} twice")
        given[name] = argument
    bound: list[tuple[Parameter, Argument]] = []
    for parameter in schema.parameters:
        if parameter.name not in given and not parameter.has_default:
            raise refused(f"{line.operator} needs an argument {parameter.name[:80]!a}")
        bound.append((parameter, given.get(parameter.name, parameter.default)))
    return tuple(bound)


def _schema_of(schema: "FunctionSchema") -> Schema:
    parameters: list[Parameter] = []
    written: dict[str, str] = {}
    for argument in schema.arguments:
        alias = argument.alias_info
        length = cast(int | None, getattr(argument, "N", None))
        type = _type_of(argument.real_type, length)
        if alias is not None and alias.is_write:
            written.update(dict.fromkeys(map(str, alias.before_set), argument.name))
        has_default = argument.has_default_value()
        parameters.append(
            Parameter(
                name=argument.name,
                type=type,
                keyword_only=argument.kwarg_only,
                is_out=argument.is_out,
                is_written=alias is not None and alias.is_write,
                has_default=has_default,
                default=_default(type, argument.default_value) if has_default else None,
            )
        )
    returned: list[str | None] = []
    for result in schema.returns:
        alias = result.alias_info
        names = list(map(str, alias.before_set)) if alias and alias.is_write else []
        returned.append(written.get(names[0]) if names else None)
    return Schema(
        schema.name,
        schema.overload_name,
        tuple(parameters),
        tuple(_type_of(result.real_type, None) for result in schema.returns),
        tuple(returned),
    )


def _type_of(type: "JitType", length: int | None) -> SchemaType:
    if type.kind() == "SymBoolType":
        return SchemaType(Kind.SYM_BOOL)
    return _parse_type(str(type), length)


def _parse_type(text: str, length: int | None) -> SchemaType:
    nested = _TYPE.fullmatch(text)
    if nested is None:
        return SchemaType(Kind(text) if text in _BASIC else Kind.OTHER)
    kind = Kind(nested[1])
    element = _parse_type(nested[2], length if kind is Kind.OPTIONAL else None)
    return SchemaType(kind, element, length if kind is Kind.LIST else None)


_BASIC = frozenset(Kind) - {Kind.OPTIONAL, Kind.LIST, Kind.OTHER, Kind.SYM_BOOL}


def _default(type: SchemaType, value: object) -> Argument:
    kind = type.required.kind
    if isinstance(value, int) and kind is Kind.DTYPE:
        return _DTYPE_DEFAULTS[value]
    if isinstance(value, int) and kind is Kind.MEMORY_FORMAT:
        return TorchEnum("memory_format", _MEMORY_FORMAT_DEFAULTS[value])
    if isinstance(value, list):
        return tuple(_default(type, item) for item in cast(Sequence[object], value))
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise refused(f"a default of {str(value)[:80]!a} has no form in C++")
