"""Calls of PyTorch's C functions for single operators, as its headers declare them."""

import importlib.util
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import LiteralString, TypeAlias

from wrapperir.emit import Fragment, fragment, joined
from wrapperir.ir import (
    DEFAULT_SPACE,
    ComplexLiteral,
    Device,
    DType,
    SymbolKind,
    TorchEnum,
    is_identifier,
)
from wrapperir.operators import Kind, Schema, SchemaParameter, SchemaType
from wrapperir_cpp.dispatcher import format_device, format_integers
from wrapperir_cpp.literals import format_dtype, format_float, format_int, format_string
from wrapperir_cpp.module_text import CppModule
from wrapperir_cpp.operator_values import (
    ListValue,
    NoValue,
    NumberValue,
    OperatorValue,
    ResultValue,
    TensorHandle,
    tensors_in,
)

_INTERFACE = "include/torch/csrc/inductor/aoti_torch"
_DECLARATION = re.compile(
    r"AOTI_TORCH_EXPORT\s+AOTITorchError\s+(aoti_torch_\w+)\s*\(([^()]*)\)\s*;"
)
_COMMENT = re.compile(r"//[^\n]*")
_C_TYPES: Mapping[Kind, LiteralString] = {
    Kind.TENSOR: "AtenTensorHandle",
    Kind.BOOL: "int32_t",
    Kind.INT: "int64_t",
    Kind.SCALAR: "double",
    Kind.FLOAT: "double",
    Kind.STRING: "const char*",
    Kind.LAYOUT: "int32_t",
    Kind.MEMORY_FORMAT: "int32_t",
    Kind.DTYPE: "int32_t",
    Kind.GENERATOR: "AtenGeneratorHandle",
}
_RESULTS: Mapping[Kind, LiteralString] = {
    Kind.TENSOR: "AtenTensorHandle*",
    Kind.INT: "int64_t*",
    Kind.FLOAT: "double*",
}
_DROPPED: Mapping[Kind, LiteralString] = {
    Kind.INT: "op::Some<int64_t>{{0}}",
    Kind.FLOAT: "op::Some<double>{{0}}",
}
# Operators for which an int and the equal float give the same result on tensors of floats.
_SCALAR_IS_FLOAT = frozenset(
    f"aten::{name}"
    for name in (
        *("add", "subtract", "mul", "pow", "fill_", "addmm", "addmv", "addbmm", "baddbmm"),
        *("_addmm_activation", "scatter", "histc"),
    )
)
ShimSignature: TypeAlias = tuple[tuple[Fragment, str], ...]
"""The type and name of each parameter of a C function."""


def find_shim(
    operator: Schema, values: Sequence[OperatorValue], device: Device
) -> str | None:
    """Return the C function that has the effect of a call, or ``None``.

    The function is for the device of all tensors, is declared with exactly the parameters
    of the schema, and gets each value without loss.
    """
    signature = signature_of(operator)
    namespace, _, base = operator.name.partition("::")
    kind = _device_of(values, device)
    if signature is None or namespace != "aten" or kind is None:
        return None
    name = f"{base}_{operator.overload}" if operator.overload else base
    for function in (f"aoti_torch_{kind}_{name}", f"aoti_torch_aten_{name}"):
        if declared_shims().get(function) == signature and is_identifier(function):
            return function if _is_lossless(operator, values) else None
    return None


@cache
def declared_shims() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return the parameters of each C function of the installed PyTorch, by its name."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return {}
    folder = Path(found.origin).parent / _INTERFACE / "generated"
    shims: dict[str, tuple[tuple[str, str], ...]] = {}
    for name in ("cpu", "cuda", "aten"):
        header = folder / f"c_shim_{name}.h"
        if header.is_file():
            shims.update(parse_declarations(header.read_text("utf-8")))
    return shims


def parse_declarations(text: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the type and name of each parameter of the functions of a header."""
    shims: dict[str, tuple[tuple[str, str], ...]] = {}
    for function, parameters in _DECLARATION.findall(_COMMENT.sub("", text)):
        parts = [" ".join(part.split()).rpartition(" ") for part in parameters.split(",")]
        shims[function] = tuple((type, name) for type, _, name in parts)
    return shims


@cache
def signature_of(operator: Schema) -> ShimSignature | None:
    """Return the parameters of a C function for the operator; outputs are first.

    ``None`` if C functions do not take one of the types.
    """
    parameters: list[tuple[Fragment, str]] = []
    for parameter in sorted(operator.parameters, key=lambda p: not p.is_out):
        expanded = _expanded(parameter.type, parameter.name)
        if not expanded:
            return None
        parameters += expanded
    if not writes_arguments(operator):
        for position, type in enumerate(operator.results):
            if type.kind not in _RESULTS:
                return None
            parameters.append((fragment(_RESULTS[type.kind]), f"ret{position}"))
    return tuple(parameters)


def writes_arguments(operator: Schema) -> bool:
    """Say whether an operator's results are arguments; its C function returns nothing."""
    return any(p.is_out for p in operator.parameters) or operator.name.endswith("_")


def _expanded(type: SchemaType, name: str) -> list[tuple[Fragment, str]]:
    """Return the C parameters for one of the schema; none if there is no C type for it."""
    if type.kind is Kind.OPTIONAL:
        inner = _expanded(type.required, name)
        return [(fragment("{}*", spelled), name) for spelled, name in inner[:1]] + inner[1:]
    if type.kind is Kind.LIST:
        assert type.element is not None
        inner = _expanded(type.element, name)
        if len(inner) != 1:
            return []
        spelled = fragment("const {}*", inner[0][0])
        return [(spelled, name), (fragment("int64_t"), f"{name}_len_")]
    if type.kind is Kind.DEVICE:
        return [(fragment("int32_t"), name), (fragment("int32_t"), f"{name}_index_")]
    return [(fragment(_C_TYPES[type.kind]), name)] if type.kind in _C_TYPES else []


def _device_of(values: Sequence[OperatorValue], device: Device) -> str | None:
    """Return the kind of device of a call; ``None`` if a tensor's memory is special."""
    tensors = [tensor for value in values for tensor in tensors_in(value)]
    kinds = {tensor.type.device.kind for tensor in tensors}
    kinds |= {value.kind for value in values if isinstance(value, Device)} or (
        set() if tensors else {device.kind}
    )
    plain = all(t.type.space == DEFAULT_SPACE and t.type.layout is None for t in tensors)
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    return kind if plain and kind in ("cpu", "cuda") else None


def _is_lossless(operator: Schema, values: Sequence[OperatorValue]) -> bool:
    tensors = [tensor for value in values for tensor in tensors_in(value)]
    floats = bool(tensors) and all(t.type.dtype.is_float for t in tensors)
    name = operator.name
    for parameter, value in zip(operator.parameters, values, strict=True):
        written = tensors_in(value) if parameter.is_written else []
        if any(tensor.type.dtype.value.startswith("c") for tensor in written):
            return False  # a complex tensor may be conjugated lazily
        if not _keeps(parameter, value, whole=floats and name in _SCALAR_IS_FLOAT):
            return False
    return True


def _keeps(parameter: SchemaParameter, value: OperatorValue, *, whole: bool) -> bool:
    """Say whether a C function gets a value without loss; ``whole`` lets ints be floats."""
    kind = parameter.type.required.kind
    match value:
        case NumberValue(kind=SymbolKind.FLOAT):
            return kind is not Kind.TENSOR
        case NumberValue(constant=constant) if kind is Kind.SCALAR:
            exact = constant is not None and abs(constant) <= 2**53
            return whole and exact and not isinstance(constant, bool)
        case NumberValue() | ComplexLiteral():
            return kind is not Kind.TENSOR and not isinstance(value, ComplexLiteral)
        case ListValue(items):
            element = parameter.type.required.element
            assert element is not None
            if element.kind is Kind.SCALAR or element.kind is Kind.LIST:
                return False
            plain = (NoValue, TensorHandle, NumberValue)
            return all(isinstance(item, plain) for item in items)
        case str() if not isinstance(value, DType):
            return "\0" not in value
        case NoValue():
            return parameter.type.kind is Kind.OPTIONAL
        case TensorHandle() | str() | TorchEnum() | Device():
            return True


def format_shim_call(
    module: CppModule,
    function: str,
    operator: Schema,
    values: Sequence[OperatorValue],
    results: Sequence[ResultValue],
    line: Fragment,
) -> Fragment | None:
    """Return the call of a C function, and declare the function.

    ``None`` if the program has the function's name for something else.
    """
    name = module.c_functions[function]
    if name != function:
        return None
    types = joined(", ", [spelled for spelled, _ in signature_of(operator) or ()])
    module.declare(fragment("AOTITorchError {}({})", name, types))
    pairs = zip(operator.parameters, values, strict=True)
    texts = [
        text
        for parameter, value in sorted(pairs, key=lambda pair: not pair[0].is_out)
        for text in _format_value(module, parameter.type, value)
    ]
    return fragment(
        "check({}({}), {});",
        name,
        joined(", ", [*texts, *map(_format_result, results)]),
        line,
    )


def _format_result(result: ResultValue) -> Fragment:
    """Return the address of a result; a dropped one is written to a temporary."""
    if result.target is None:
        return fragment(_DROPPED.get(result.type.kind, "Tensor().out()"))
    template = "{}.out()" if result.type.kind is Kind.TENSOR else "&{}"
    return fragment(template, result.target)


def _format_value(
    module: CppModule, type: SchemaType, value: OperatorValue
) -> list[Fragment]:
    if type.kind is Kind.OPTIONAL:
        return _format_optional(module, type.required, value)
    match value:
        case TensorHandle(text):
            return [text]
        case NumberValue(text, constant=constant) if type.kind is Kind.SCALAR:
            return [text if constant is None else format_float(float(constant))]
        case NumberValue(text):
            return [text]
        case ListValue(items):
            return _format_list(module, type, items)
        case DType():
            return [fragment("torch_dtype({})", format_dtype(value))]
        case str():
            return [format_string(value)]
        case Device():
            kind, index = format_device(value)
            return [fragment("torch_device({})", kind), index]
        case TorchEnum("layout", name):
            return [fragment("op::torch_layout(op::Layout::{})", Fragment(name))]
        case TorchEnum(_, name):
            format = fragment("op::MemoryFormat::{}", Fragment(name))
            return [fragment("op::torch_memory_format({})", format)]
        case NoValue() | ComplexLiteral():
            raise AssertionError("C functions do not take this value")


def _format_optional(
    module: CppModule, type: SchemaType, value: OperatorValue
) -> list[Fragment]:
    (spelled, _), *others = _expanded(type, "")
    if isinstance(value, NoValue):
        return [fragment("nullptr"), *(fragment("0") for _ in others)]
    first, *rest = _format_value(module, type, value)
    return [fragment("op::Some<{}>{{{}}}", spelled, first), *rest]


def _format_list(
    module: CppModule, type: SchemaType, items: tuple[OperatorValue, ...]
) -> list[Fragment]:
    assert type.element is not None
    count = format_int(len(items))
    if not items:
        return [fragment("nullptr"), count]
    if type.element.kind is Kind.INT:
        integers = format_integers(module, items)
        if not integers.startswith("{"):
            return [integers, count]
        return [fragment("op::list_of<int64_t>({})", integers), count]
    texts = [_format_value(module, type.element, item)[0] for item in items]
    ((spelled, _),) = _expanded(type.element, "")
    if type.element.kind is Kind.OPTIONAL:
        spelled = fragment("const {}", spelled)
    return [fragment("op::list_of<{}>({{{}}})", spelled, joined(", ", texts)), count]
