"""Formatting of the parts of lines: names, types, arguments, devices, provenance."""

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    CPU,
    DEFAULT_SPACE,
    POOL_ALIGNMENT,
    Argument,
    BufferParameter,
    BufferRef,
    ComplexLiteral,
    Constant,
    ConstexprParameter,
    DescriptorParameter,
    Device,
    DType,
    EventType,
    Expr,
    OpaqueType,
    Operation,
    Parameter,
    PoolType,
    Provenance,
    Result,
    ScalarType,
    Symbol,
    TensorType,
    TorchEnum,
    TupleType,
    ValueType,
    contiguous_stride,
)
from wrapperir.text.arguments import TORCH_ENUMS
from wrapperir.text.expressions import format_expression
from wrapperir.text.limits import (
    MAX_LIST_DEPTH,
    MAX_RANK,
    Malformed,
    Names,
    device_index,
    quoted,
    unwritable,
)
from wrapperir.text.literals import format_integer, format_number, format_string

MOST_ORIGINS = 4
"""A line of a program with more origins refers to a list of them at the end."""

_SHORT = 10**18
_DTYPES = {dtype: dtype.value for dtype in DType}


class PartPrinter(Names):
    """Formats parts of one program.

    Types and provenance that lines share are formatted once.  The tables are keyed by
    identity, because equality does not distinguish ``True``, ``1`` and ``1.0``.  Every
    method raises :class:`Malformed` for a value that text cannot spell.

    ``fused`` has the lists of origins that lines refer to by number, each with its number;
    it is ``None`` where lines list all their origins.
    """

    def __init__(self, *, lists_origins: bool = True) -> None:
        """Start with empty tables; with ``lists_origins`` no list has a number."""
        super().__init__()
        self.fused: dict[tuple[str, ...], int] | None = None if lists_origins else {}
        self._types: dict[int, str] = {}
        self._devices: dict[int, str] = {}
        self.origins: dict[int, str] = {id(None): ""}
        """The text of each provenance, by identity."""
        self._lists = 0

    def name(self, name: str) -> str:
        """Return an identifier."""
        return self.identifiers[name]

    def operator(self, name: str) -> str:
        """Return a name of identifiers joined by dots."""
        return self.dotted[name]

    def values(self, names: tuple[str, ...]) -> str:
        """Return names of values with commas between them."""
        return ", ".join([f"%{self.identifiers[name]}" for name in names])

    def defined(self, result: str | tuple[Result, ...] | None) -> str:
        """Return the names that a line defines and an equals sign; empty for none."""
        if isinstance(result, str):
            return f"%{self.identifiers[result]} = "
        return f"{self.values(tuple(r.name for r in result))} = " if result else ""

    # Expressions and types

    def expression(self, expr: Expr) -> str:
        """Return an expression."""
        if type(expr) is int:
            return format_integer(expr)
        return format_expression(expr, self.symbols.__getitem__)

    def expressions(self, exprs: tuple[Expr, ...]) -> str:
        """Return expressions with commas between them."""
        return ", ".join(
            [
                str(expr)
                if type(expr) is int and -_SHORT < expr < _SHORT
                else self.expression(expr)
                for expr in exprs
            ]
        )

    def type(self, type: ValueType) -> str:
        """Return a type."""
        key = id(type)
        text = self._types.get(key)
        if text is None:
            text = self._types[key] = self._format_type(type)
        return text

    def tensor(self, type: TensorType) -> str:
        """Return a tensor's type."""
        if not isinstance(type, TensorType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise unwritable(type, "a tensor's type")
        return self._types.get(id(type)) or self.type(type)

    def pool(self, type: PoolType) -> str:
        """Return a pool's type."""
        if not isinstance(type, PoolType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise unwritable(type, "a pool's type")
        return self.type(type)

    def placed(self, type: TensorType | PoolType) -> str:
        """Return a type that may be placed in a pool."""
        return self.pool(type) if isinstance(type, PoolType) else self.tensor(type)

    def _format_type(self, type: ValueType) -> str:
        if isinstance(type, TensorType):
            return self._format_tensor(type)
        if isinstance(type, ScalarType):
            return type.dtype.value
        if isinstance(type, TupleType):
            self._enter_list()
            text = f"({', '.join([self.type(element) for element in type.elements])})"
            self._lists -= 1
            return text
        if isinstance(type, OpaqueType):
            described = type.description
            return f"opaque({format_string(described)})" if described else "opaque"
        if isinstance(type, PoolType):
            return self._format_pool(type)
        if isinstance(type, EventType):  # pyright: ignore[reportUnnecessaryIsInstance]
            return "event" + self.spaced_device(type.device)[1:]
        raise unwritable(type, "a type")

    def _format_tensor(self, type: TensorType) -> str:
        size, stride = type.size, type.stride
        if len(size) > MAX_RANK or len(stride) > MAX_RANK:
            raise Malformed(Code.TOO_DEEP, f"a tensor of more than {MAX_RANK} dimensions")
        inner = self.expressions(size)
        if not _is_dense(size, stride):
            steps = self.expressions(stride)
            if len(size) != len(stride) or steps != self._row_major(size):
                inner += f"; stride {steps}" if steps else "; stride"
        offset = self.expression(type.offset)
        if offset != "0":
            inner += f"; offset {offset}"
        text = f"{_DTYPES[type.dtype]}[{inner}]{self.spaced_device(type.device)[1:]}"
        if (
            type.layout is None
            and type.alignment is None
            and not type.pinned
            and type.space == DEFAULT_SPACE
        ):
            return text
        attributes = self._attributes(type, None)
        if type.layout is not None:
            layout = self.dotted[type.layout.name]
            if type.layout.parameters:
                given = [
                    format_string(p) if isinstance(p, str) else format_integer(p)
                    for p in type.layout.parameters
                ]
                layout += f"({', '.join(given)})"
            attributes.append(f"layout = {layout}")
        return f"{text} {{{', '.join(attributes)}}}"

    def _format_pool(self, type: PoolType) -> str:
        text = f"pool[{self.expression(type.size)}]{self.spaced_device(type.device)[1:]}"
        attributes = self._attributes(type, POOL_ALIGNMENT)
        return f"{text} {{{', '.join(attributes)}}}" if attributes else text

    def _attributes(self, type: TensorType | PoolType, alignment: int | None) -> list[str]:
        """Return the attributes except the layout, without the default ``alignment``."""
        attributes: list[str] = []
        if type.pinned:
            attributes.append("pinned")
        if type.alignment is not None and type.alignment != alignment:
            attributes.append(f"align = {format_integer(type.alignment)}")
        if type.space != DEFAULT_SPACE:
            attributes.append(f"space = {self.identifiers[type.space]}")
        return attributes

    def _row_major(self, size: tuple[Expr, ...]) -> str | None:
        """Return the text of row-major strides; ``None`` where they cannot be written."""
        try:
            return self.expressions(contiguous_stride(size))
        except Malformed:
            return None

    def spaced_device(self, device: Device) -> str:
        """Return the device of a call after a space; empty for the CPU."""
        key = id(device)
        text = self._devices.get(key)
        if text is None:
            text = "" if device == CPU else " @" + self._bare_device(device)
            self._devices[key] = text
        return text

    def _bare_device(self, device: Device) -> str:
        kind = self.identifiers[device.kind]
        if device.index is None:
            return kind
        return f"{kind}:{device_index(device.index):d}"

    # Arguments

    def operand(self, argument: Argument) -> str:
        """Return an argument of an operator or kernel."""
        if isinstance(argument, BufferRef):
            return "%" + self.identifiers[argument.name]
        if argument is None:
            return "none"
        if isinstance(argument, int | float):
            return format_number(argument)
        if isinstance(argument, Symbol | Operation):
            return self.expression(argument)
        if isinstance(argument, DType):  # before str, its base class
            return f"dtype({argument.value})"
        if isinstance(argument, str):
            return format_string(argument)
        if isinstance(argument, tuple):
            self._enter_list()
            text = f"[{self.operands(argument)}]"
            self._lists -= 1
            return text
        if isinstance(argument, Device):
            return f"device({self._bare_device(argument)})"
        if isinstance(argument, TorchEnum):
            if argument.kind not in TORCH_ENUMS:
                raise Malformed(
                    Code.BAD_NAME,
                    f"{quoted(argument.kind)} is not a kind of torch constant",
                    hint="one of " + ", ".join(f"`{kind}`" for kind in TORCH_ENUMS),
                )
            return f"{argument.kind}({self.identifiers[argument.name]})"
        if isinstance(argument, ComplexLiteral):  # pyright: ignore[reportUnnecessaryIsInstance]
            real = format_number(argument.real)
            return f"complex({real}, {format_number(argument.imaginary)})"
        raise unwritable(argument, "an argument")

    def operands(self, arguments: tuple[Argument, ...]) -> str:
        """Return arguments with commas between them."""
        return ", ".join([self.operand(argument) for argument in arguments])

    def closed_operands(self, arguments: tuple[Argument, ...]) -> str:
        """Return arguments with commas between them and a parenthesis at the end."""
        return f"{', '.join([self.operand(argument) for argument in arguments])})"

    def _enter_list(self) -> None:
        self._lists += 1
        if self._lists > MAX_LIST_DEPTH:
            raise Malformed(
                Code.TOO_DEEP, f"more than {MAX_LIST_DEPTH} lists or tuples within others"
            )

    # Parts of particular lines

    def origin(self, provenance: Provenance | None) -> str:
        """Return provenance after a space; empty for ``None``."""
        key = id(provenance)
        text = self.origins.get(key)
        if text is None:
            assert provenance is not None
            text = self.origins[key] = self._format_provenance(provenance)
        return text

    def origin_list(self, names: tuple[str, ...]) -> str:
        """Return names of origins with commas between them."""
        return ", ".join([self.origin_names[name] for name in names])

    def _format_provenance(self, provenance: Provenance) -> str:
        names, passes = provenance.origins, provenance.passes
        if self.fused is None or len(names) <= MOST_ORIGINS:
            shown = self.origin_list(names)
        else:
            shown = f"fused {self.fused.setdefault(names, len(self.fused))}"
        text = f" from({shown})" if names or not passes else ""
        if passes:
            text += f" by({', '.join([self.identifiers[name] for name in passes])})"
        return text

    def parameter(self, parameter: Parameter) -> str:
        """Return a kernel's parameter."""
        name = self.identifiers[parameter.name]
        if isinstance(parameter, BufferParameter):
            return f"{name}: {parameter.access.value} {parameter.dtype.value}*"
        if isinstance(parameter, DescriptorParameter):
            block = ", ".join([format_integer(length) for length in parameter.block])
            access, dtype = parameter.access.value, parameter.dtype.value
            return f"{name}: {access} descriptor {dtype}[{block}]"
        if isinstance(parameter, ConstexprParameter):
            return f"{name}: constexpr"
        return f"{name}: {parameter.dtype.value}"

    def constant(self, constant: Constant) -> str:
        """Return a number, boolean, string or ``none``."""
        if isinstance(constant, str):
            return format_string(constant)
        return "none" if constant is None else format_number(constant)


def _is_dense(size: tuple[Expr, ...], stride: tuple[Expr, ...]) -> bool:
    """Return whether sizes and strides are integers and row-major; quick, not complete."""
    if len(size) != len(stride):
        return False
    step = 1
    for index in range(len(size) - 1, -1, -1):
        extent = size[index]
        if type(extent) is not int or type(stride[index]) is not int:
            return False
        if stride[index] != step:
            return False
        step *= extent
    return True
