"""The JSON forms of expressions, arguments and constants.

Numbers, booleans, strings and ``null`` are JSON's own; ``{"symbol": "s0"}`` is a symbol,
``{"op": "add", "args": [...]}`` an operation, ``{"buffer": "buf0"}`` a value,
``{"dtype": "f32"}``, ``{"device": {...}}``, ``{"complex": [1.0, 2.0]}`` and
``{"memory_format": "channels_last"}`` are the calls of the text form, and an array is a
list.
"""

from collections.abc import Callable

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    MAX_DEPTH,
    Argument,
    BufferRef,
    ComplexLiteral,
    Device,
    DType,
    Expr,
    ExprOp,
    Operation,
    Symbol,
    TorchEnum,
    accepts_arity,
)
from wrapperir.text.arguments import TORCH_ENUMS
from wrapperir.text.json_forms import (
    IDENTIFIER,
    NUMBER,
    NUMBER_SCHEMAS,
    SYMBOL,
    TEXT,
    Form,
    JsonObject,
    Schema,
    Tables,
    choice,
    duplicate_key,
    get,
    is_array,
    is_object,
    is_tuple,
    one_of,
    read_identifier,
    read_integer,
    read_number,
    read_symbol,
    read_text,
    tagged,
    unknown_field,
    write_number,
    wrong_type,
)
from wrapperir.text.limits import MAX_LIST_DEPTH
from wrapperir.text.literals import checked_time, format_integer, format_string
from wrapperir.text.malformed import Malformed, quoted

_OPS = {op.value: op for op in ExprOp}
_DTYPE = choice(DType)


def _too_deep() -> Malformed:
    return Malformed(Code.TOO_DEEP, f"an expression more than {MAX_DEPTH} operations deep")


def write_expression(value: object, tables: Tables, depth: int = MAX_DEPTH) -> str:
    """Write an expression."""
    if type(value) is int:
        return format_integer(value)
    if isinstance(value, Symbol):
        return f'{{"symbol":"{tables.names.symbol(value.name)}"}}'
    if isinstance(value, int | float):
        return write_number(value, tables)
    if not isinstance(value, Operation):
        raise Malformed(
            Code.UNWRITABLE_VALUE, f"{quoted(repr(value)[:200])} is not an expression"
        )
    if depth == 0:
        raise _too_deep()
    if not accepts_arity(value.op, len(value.args)):
        raise _bad_arity(value.op, len(value.args))
    args = ",".join([write_expression(arg, tables, depth - 1) for arg in value.args])
    return f'{{"op":"{value.op.value}","args":[{args}]}}'


def read_expression(value: object, tables: Tables, depth: int = MAX_DEPTH) -> Expr:
    """Read an expression."""
    kind = type(value)
    if kind is int:
        return read_integer(value, tables)
    if kind is bool:
        return bool(value)
    if is_object(value):
        if len(value) == 1:
            key, content = value[0]
            if key == "symbol":
                return Symbol(read_symbol(content, tables))
        elif len(value) == 2:
            return _read_operation(value, tables, depth)
    return read_number(value, tables)


def _read_operation(value: JsonObject, tables: Tables, depth: int) -> Operation:
    for key, _ in value:
        if key not in ("op", "args"):
            raise unknown_field(key, ("op", "args"))
    if value[0][0] == value[1][0]:
        raise duplicate_key(value)
    name, args = get(value, "op"), get(value, "args")
    op = _OPS.get(name) if type(name) is str else None
    if op is None:
        raise Malformed(Code.UNKNOWN_WORD, "`op` is not an operator of expressions")
    if not is_array(args):
        raise wrong_type(args, "an array, the `args` of an operation")
    if depth == 0:
        raise _too_deep()
    if not accepts_arity(op, len(args)):
        raise _bad_arity(op, len(args))
    return Operation(op, tuple([read_expression(a, tables, depth - 1) for a in args]))


def _bad_arity(op: ExprOp, count: int) -> Malformed:
    return Malformed(Code.BAD_ARITY, f"`{op.value}` does not take {count} operands")


_EXPRESSION_REF: Schema = {"$ref": "#/$defs/expression"}
_ARGUMENT_REF: Schema = {"$ref": "#/$defs/argument"}
_VALUE_SCHEMA = tagged("buffer", IDENTIFIER.schema)
DEFINITIONS: dict[str, Schema] = {
    "expression": one_of(
        {"type": "boolean"},
        *NUMBER_SCHEMAS,
        tagged("symbol", SYMBOL.schema),
        {
            "type": "object",
            "properties": {
                "op": {"enum": list(_OPS)},
                "args": {"type": "array", "items": _EXPRESSION_REF, "minItems": 1},
            },
            "required": ["op", "args"],
            "additionalProperties": False,
        },
    ),
    "argument": one_of(
        _EXPRESSION_REF,
        {"type": ["string", "null"]},
        _VALUE_SCHEMA,
        tagged("dtype", _DTYPE.schema),
        tagged("device", {"$ref": "#/$defs/Device"}),
        tagged(
            "complex",
            {"type": "array", "items": NUMBER.schema, "minItems": 2, "maxItems": 2},
        ),
        *(tagged(kind, IDENTIFIER.schema) for kind in TORCH_ENUMS),
        {"type": "array", "items": _ARGUMENT_REF},
    ),
}

EXPRESSION = Form(write_expression, read_expression, _EXPRESSION_REF)


def _write_kernel_argument(value: object, tables: Tables) -> str:
    if type(value) is BufferRef:
        return f'{{"buffer":"{tables.names.identifier(value.name)}"}}'
    return write_expression(value, tables)


def _read_kernel_argument(value: object, tables: Tables) -> object:
    if is_object(value) and len(value) == 1:
        key, content = value[0]
        if key == "buffer":
            return BufferRef(read_identifier(content, tables))
    return read_expression(value, tables)


KERNEL_ARGUMENT = Form(
    _write_kernel_argument, _read_kernel_argument, one_of(_VALUE_SCHEMA, _EXPRESSION_REF)
)


def argument_form(device: Form) -> Form:
    """Return the form of an operator's argument, given the form of a device."""

    def write(value: object, tables: Tables, depth: int = MAX_LIST_DEPTH) -> str:
        if type(value) is BufferRef:
            return f'{{"buffer":"{tables.names.identifier(value.name)}"}}'
        if value is None:
            return "null"
        if isinstance(value, DType):
            return f'{{"dtype":"{value.value}"}}'
        if isinstance(value, str):
            return format_string(value)
        if is_tuple(value):
            if depth == 0:
                raise _lists_too_deep()
            return f"[{','.join([write(item, tables, depth - 1) for item in value])}]"
        if isinstance(value, Device):
            return f'{{"device":{device.write(value, tables)}}}'
        if isinstance(value, TorchEnum):
            if value.kind not in TORCH_ENUMS:
                raise Malformed(
                    Code.BAD_NAME, f"{quoted(value.kind)} is not a kind of torch constant"
                )
            return f'{{"{value.kind}":"{tables.names.identifier(value.name)}"}}'
        if isinstance(value, ComplexLiteral):
            real, imaginary = value.real, value.imaginary
            parts = f"{write_number(real, tables)},{write_number(imaginary, tables)}"
            return f'{{"complex":[{parts}]}}'
        return write_expression(value, tables)

    readers: dict[str, Callable[[object, Tables], Argument]] = {
        "buffer": lambda value, tables: BufferRef(read_identifier(value, tables)),
        "dtype": _read_dtype,
        "complex": _read_complex,
        "device": lambda value, tables: _device(device.read(value, tables)),
        "layout": lambda value, tables: TorchEnum("layout", read_identifier(value, tables)),
        "memory_format": lambda value, tables: TorchEnum(
            "memory_format", read_identifier(value, tables)
        ),
    }

    def read(value: object, tables: Tables, depth: int = MAX_LIST_DEPTH) -> Argument:
        if is_object(value):
            if len(value) == 1:
                key, content = value[0]
                reader = readers.get(key)
                if reader is not None:
                    return reader(content, tables)
            return read_expression(value, tables)
        if type(value) is str:
            return read_text(value, tables)
        if value is None:
            return None
        if is_array(value):
            if depth == 0:
                raise _lists_too_deep()
            return tuple([read(item, tables, depth - 1) for item in value])
        return read_expression(value, tables)

    return Form(write, read, _ARGUMENT_REF)


def _lists_too_deep() -> Malformed:
    return Malformed(Code.TOO_DEEP, f"more than {MAX_LIST_DEPTH} lists within others")


def _read_dtype(value: object, tables: Tables) -> Argument:
    found = _DTYPE.read(value, tables)
    assert isinstance(found, DType)
    return found


def _device(found: object) -> Device:
    assert isinstance(found, Device)
    return found


def _read_complex(value: object, tables: Tables) -> Argument:
    if not is_array(value) or len(value) != 2:
        raise wrong_type(value, "an array of the real and the imaginary part")
    return ComplexLiteral(read_number(value[0], tables), read_number(value[1], tables))


def _write_constant(value: object, tables: Tables) -> str:
    if value is None:
        return "null"
    return format_string(value) if isinstance(value, str) else write_number(value, tables)


def _read_constant(value: object, tables: Tables) -> object:
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return read_text(value, tables)
    return read_number(value, tables)


CONSTANT = Form(
    _write_constant,
    _read_constant,
    one_of({"type": ["boolean", "string", "null"]}, *NUMBER_SCHEMAS),
)


def _read_config_value(value: object, tables: Tables) -> object:
    if value is None:
        raise wrong_type(value, "a number, boolean or string")
    return _read_constant(value, tables)


CONFIG_VALUE = Form(
    _write_constant,
    _read_config_value,
    one_of({"type": ["boolean", "string"]}, *NUMBER_SCHEMAS),
)


def _read_layout_value(value: object, tables: Tables) -> object:
    return read_text(value, tables) if type(value) is str else read_integer(value, tables)


LAYOUT_VALUE = Form(
    _write_constant, _read_layout_value, one_of({"type": "integer"}, TEXT.schema)
)


def _write_time(value: object, tables: Tables) -> str:
    return write_number(checked_time(value), tables)


def _read_time(value: object, tables: Tables) -> object:
    return checked_time(read_number(value, tables))


TIME = Form(_write_time, _read_time, {"type": "number", "minimum": 0})


def symbol_source_form(sources: Form) -> Form:
    """Return the form of a symbol's source, given the form of reads of values."""

    def write(value: object, tables: Tables) -> str:
        if isinstance(value, int | float | Symbol | Operation):
            return write_expression(value, tables)
        return sources.write(value, tables)

    def read(value: object, tables: Tables) -> object:
        if is_object(value) and get(value, "kind") is not None:
            return sources.read(value, tables)
        return read_expression(value, tables)

    return Form(write, read, one_of(_EXPRESSION_REF, sources.schema))
