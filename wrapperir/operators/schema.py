"""Operators by name, and their schemas as data: types, defaults, writes, aliases."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from attrs import frozen

from wrapperir.ir import Argument, DType, TorchEnum, is_operator

if TYPE_CHECKING:
    from torch._C import FunctionSchema, JitType
    from torch._ops import OpOverload

    Operator: TypeAlias = OpOverload[..., object]

T = TypeVar("T")
_DUNDER_OPERATORS = frozenset(
    f"__{inplace}{name}__"
    for inplace in ("", "i")
    for name in ("and", "or", "xor", "lshift", "rshift")
)
"""Operators that PyTorch names as Python names its own; other such names are Python's."""


class UnknownOperatorError(LookupError):
    """No operator of that name is registered; the message says what is missing."""


def split_operator(name: str) -> tuple[str, str, str]:
    """Return namespace, operator and overload of a name such as ``aten.mm.out``.

    Raises:
        UnknownOperatorError: the dispatcher can have no such name.
    """
    parts = name.split(".") if is_operator(name) else []
    hidden = any(part.startswith("__") and part not in _DUNDER_OPERATORS for part in parts)
    if len(parts) != 3 or hidden:
        raise UnknownOperatorError(f"{name[:80]!a} is not namespace.operator.overload")
    namespace, operator, overload = parts
    return namespace, operator, overload


def find_overload(name: str) -> "Operator":
    """Return the operator of a name such as ``aten.mm.out``.

    Raises:
        UnknownOperatorError: it is not registered.
    """
    import torch  # loaded late: naming operators needs none
    from torch._ops import OpOverload, OpOverloadPacket

    namespace, operator, overload = split_operator(name)
    try:
        packet: object = getattr(getattr(torch.ops, namespace), operator)
    except (AttributeError, RuntimeError):
        packet = None
    if not isinstance(packet, OpOverloadPacket):
        raise UnknownOperatorError(f"PyTorch has no operator {namespace}.{operator}")
    found: object = getattr(cast(object, packet), overload, None)
    if not isinstance(found, OpOverload):
        message = f"{namespace}.{operator} has no overload {overload}"
        raise UnknownOperatorError(message)
    return cast("Operator", found)


def registered_operators() -> Sequence[str]:
    """Return the operators of the installed PyTorch, as ``aten::mm.out``; loads torch."""
    import torch

    return torch._C._dispatch_get_all_op_names()  # pyright: ignore[reportPrivateUsage]


class Kind(StrEnum):
    """Kind of a schema's type; the value is its name in PyTorch."""

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
    ANY = "Any"
    OTHER = "other"


@frozen
class SchemaType:
    """A type of a schema; an optional or list has the type of its ``element``.

    ``length`` is the length of a list, if the schema states one.
    """

    kind: Kind
    element: "SchemaType | None" = None
    length: int | None = None

    @property
    def required(self) -> "SchemaType":
        """The type without its optional."""
        return self.element if self.kind is Kind.OPTIONAL and self.element else self


@frozen
class SchemaParameter:
    """A parameter of an operator.

    ``is_aliased``: the schema gives it an alias set; ``is_shared``: a result, or an element
    of a list that the operator extends, may share its storage.  ``default`` is given where
    ``has_default``, unless it has no form as an argument: then ``default`` is ``None`` and
    ``odd_default`` the text of its value.
    """

    name: str
    type: SchemaType
    keyword_only: bool
    is_out: bool
    is_written: bool
    is_aliased: bool
    is_shared: bool
    has_default: bool
    default: Argument = None
    odd_default: str | None = None


@frozen
class Schema:
    """An operator: ``name`` is ``aten::mm``; ``overload`` is empty for ``default``.

    ``returned`` has for each result the written parameter that it is, or ``None``.
    ``may_view`` says whether a result may be a view of an argument that is not written.
    """

    name: str
    overload: str
    parameters: tuple[SchemaParameter, ...]
    results: tuple[SchemaType, ...]
    returned: tuple[str | None, ...]
    may_view: bool

    @property
    def is_functional(self) -> bool:
        """Whether nothing is written, and all results, at least one, are new tensors."""
        return (
            bool(self.results)
            and not self.may_view
            and not any(self.returned)
            and not any(parameter.is_aliased for parameter in self.parameters)
            and all(result.kind is Kind.TENSOR for result in self.results)
        )


_TYPE = re.compile(r"(Optional|List)\[(.*)\]")
# Defaults of these types are the numbers of C++ enumerations.
_DTYPE_DEFAULTS = {
    **{0: DType.U8, 1: DType.I8, 2: DType.I16, 3: DType.I32, 4: DType.I64},
    **{5: DType.F16, 6: DType.F32, 7: DType.F64, 11: DType.BOOL, 15: DType.BF16},
}
_MEMORY_FORMAT_DEFAULTS = (
    *("contiguous_format", "preserve_format"),
    *("channels_last", "channels_last_3d"),
)


def find_schema(operator: str) -> Schema:
    """Return the schema of an operator such as ``aten.mm.out``.

    Raises:
        UnknownOperatorError: it is not registered.
    """
    # A library of the user may define another operator of the same name the next time.
    return (_cached if operator.startswith("aten.") else _find)(operator)


def _find(operator: str) -> Schema:
    return schema_of(find_overload(operator))


_cached = cache(_find)


@lru_cache(maxsize=1024)
def schema_of(operator: "Operator") -> Schema:
    """Return the schema of an operator that is registered."""
    return _read_schema(operator._schema)  # pyright: ignore[reportPrivateUsage]


def given_arguments(
    schema: Schema, arguments: Sequence[T], keywords: Mapping[str, T]
) -> list[tuple[SchemaParameter, T]]:
    """Return the parameters that a call gives an argument, each with that argument."""
    pairs: list[tuple[SchemaParameter, T]] = []
    for position, parameter in enumerate(schema.parameters):
        if parameter.name in keywords:
            pairs.append((parameter, keywords[parameter.name]))
        elif position < len(arguments) and not parameter.keyword_only:
            pairs.append((parameter, arguments[position]))
    return pairs


def _read_schema(schema: "FunctionSchema") -> Schema:
    aliases = [result.alias_info for result in schema.returns]
    shared = {name for alias in aliases if alias for name in alias.before_set}
    parameters: list[SchemaParameter] = []
    written: dict[str, str] = {}
    for argument in schema.arguments:
        alias = argument.alias_info
        length = cast(int | None, getattr(argument, "N", None))
        type = _type_of(argument.real_type, length)
        is_written = alias is not None and alias.is_write
        if alias is not None and is_written:
            written.update(dict.fromkeys(map(str, alias.before_set), argument.name))
        given = argument.default_value if argument.has_default_value() else None
        default, odd = _default(type, given)
        parameters.append(
            SchemaParameter(
                name=argument.name,
                type=type,
                keyword_only=argument.kwarg_only,
                is_out=argument.is_out,
                is_written=is_written,
                is_aliased=alias is not None,
                # An argument that becomes an element of a list has a wildcard after.
                is_shared=alias is not None
                and (bool(alias.before_set & shared) or "*" in alias.after_set),
                has_default=argument.has_default_value(),
                default=default,
                odd_default=odd,
            )
        )
    returned: list[str | None] = []
    for alias in aliases:
        names = list(map(str, alias.before_set)) if alias and alias.is_write else []
        returned.append(written.get(names[0]) if names else None)
    return Schema(
        name=schema.name,
        overload=schema.overload_name,
        parameters=tuple(parameters),
        results=tuple(_type_of(result.real_type, None) for result in schema.returns),
        returned=tuple(returned),
        may_view=any(alias and not alias.is_write for alias in aliases),
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


def _default(type: SchemaType, value: object) -> tuple[Argument, str | None]:
    """Return a default as an argument, or, where it has no such form, its text."""
    kind = type.required.kind
    if isinstance(value, int) and kind is Kind.DTYPE:
        return _DTYPE_DEFAULTS[value], None
    if isinstance(value, int) and kind is Kind.MEMORY_FORMAT:
        return TorchEnum("memory_format", _MEMORY_FORMAT_DEFAULTS[value]), None
    if isinstance(value, list):
        items = [_default(type, item) for item in cast(Sequence[object], value)]
        odd = next((text for _, text in items if text is not None), None)
        return tuple(item for item, _ in items), odd
    if value is None or isinstance(value, bool | int | float | str):
        return value, None
    return None, str(value)
