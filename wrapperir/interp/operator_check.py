"""Checks of operator calls against the installed PyTorch; no operator computes anything.

PyTorch's own functions of shapes run on fake tensors, which have no memory.
"""

import logging
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import torch
from attrs import frozen
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)

from wrapperir import ir as wir
from wrapperir.diagnostics import (
    Code,
    Diagnostic,
    LinePath,
    did_you_mean,
    first_line,
)
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.torch_dtypes import element_type, torch_dtype
from wrapperir.interp.extern import python_value
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.mentions import buffers_in
from wrapperir.operators import (
    UnknownOperatorError,
    find_overload,
    given_arguments,
    registered_operators,
    schema_of,
    split_operator,
)
from wrapperir.report import choose_values
from wrapperir.text import format_expr

if TYPE_CHECKING:
    from wrapperir.operators.schema import Operator

_MOST_EXTENT = 1 << 24
"""Symbols with larger values might make sizes that no tensor has."""

_UNKNOWN = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    NotImplementedError,
    UnsupportedOperatorException,
)
"""Errors of calls whose results PyTorch cannot tell without data."""


class _NoFakeError(Exception):
    """A value has no fake tensor: its type is opaque, or its size is not known."""


def check_operators(program: wir.Program) -> tuple[Diagnostic, ...]:
    """Return what is wrong with the operator calls of a verified program.

    Each operator must be registered, take its arguments, and return the declared sizes and
    dtypes; ``out`` must have the size that the operator writes, and what it writes must be
    declared.  Sizes with symbols are not compared, and a call with such sizes may be
    refused for their values.  What PyTorch cannot tell without data is skipped, and so are
    strides.
    """
    checker = _CallChecker(ProgramFacts(program), _values_of(program))
    return tuple(
        found
        for line, path in walk_places(program.lines)
        if isinstance(line, wir.ExternKernelLine)
        for found in checker.check(line, path)
    )


@contextmanager
def _quiet() -> Generator[None]:
    """Leave out what PyTorch logs and warns of a call that it refuses."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = was_disabled


def _values_of(program: wir.Program) -> Mapping[str, int]:
    values = {symbol.name: symbol.value for symbol in choose_values(program, {})}
    return {name: n for name, n in values.items() if abs(n) < _MOST_EXTENT}


@frozen
class _CallChecker:
    facts: ProgramFacts
    symbols: Mapping[str, int]

    def check(self, line: wir.ExternKernelLine, path: LinePath) -> Iterator[Diagnostic]:
        def report(
            code: Code, message: str, subject: str, hint: str | None = None
        ) -> Diagnostic:
            return Diagnostic(code, message, path=path, subject=subject, hint=hint)

        try:
            operator = find_overload(line.operator)
        except UnknownOperatorError as error:
            code = Code.UNREGISTERED_OPERATOR
            yield report(code, str(error), line.operator, _near(line.operator))
            return
        for name in _undeclared(line, operator):
            message = f"{line.operator} writes %{name}, which writes(...) lacks"
            yield report(Code.UNDECLARED_WRITE, message, f"%{name}")
        given: dict[str, torch.Tensor] = {}
        try:
            with FakeTensorMode(), _quiet():
                result = self._call(line, operator, given)
        except (_NoFakeError, *_UNKNOWN):
            return
        except Exception as error:
            if not self._has_symbols(line):
                message = f"{line.operator} refuses its arguments: {first_line(error)}"
                yield report(Code.OPERATOR_ARGUMENTS, message, line.operator)
            return
        for name in (name for name in given if name in line.writes):
            if (difference := _difference(self.facts.types[name], given[name])) is not None:
                written, declared = difference
                message = f"{line.operator} writes {written} to %{name}, not {declared}"
                yield report(Code.OPERATOR_RESULT, message, f"%{name}")
        difference = None if line.type is None else _difference(line.type, result)
        if difference is not None:
            message = f"{line.operator} returns {difference[0]}, not {difference[1]}"
            yield report(Code.OPERATOR_RESULT, message, f"%{line.result}")

    def _call(
        self,
        line: wir.ExternKernelLine,
        operator: "Operator",
        given: dict[str, torch.Tensor],
    ) -> object:
        def value_of(name: str) -> object:
            if name not in given:
                given[name] = self._fake(self.facts.types[name])
            return given[name]

        def value(argument: wir.Argument) -> object:
            try:
                on_cpu = wir.CPU if isinstance(argument, wir.Device) else argument
                return python_value(on_cpu, self.symbols, value_of)
            except (wir.EvaluationError, ValueError) as error:
                raise _NoFakeError from error

        arguments = [value(argument) for argument in line.arguments]
        keywords = {key: value(argument) for key, argument in line.keywords}
        with torch.no_grad():
            return operator(*arguments, **keywords)

    def _fake(self, type: wir.ValueType) -> torch.Tensor:
        if not isinstance(type, wir.TensorType) or type.layout is not None:
            raise _NoFakeError
        size = [self._extent(extent) for extent in type.size]
        stride = [self._extent(extent) for extent in type.stride]
        return torch.empty_strided(size, stride, dtype=torch_dtype(type.dtype))

    def _extent(self, extent: wir.Expr) -> int:
        try:
            return wir.evaluate_int(extent, self.symbols)
        except wir.EvaluationError as error:
            raise _NoFakeError from error

    def _has_symbols(self, line: wir.ExternKernelLine) -> bool:
        values = (*line.arguments, *(value for _, value in line.keywords))
        names = (name for value in values for name in buffers_in(value))
        types = [self.facts.types[name] for name in names]
        return any(map(_is_symbolic, (*values, *types)))


def _difference(type: wir.ValueType, found: object) -> tuple[str, str] | None:
    """Return what was found and what is declared, if they differ."""
    if isinstance(type, wir.TupleType) and isinstance(found, tuple | list):
        parts = cast(Sequence[object], found)
        if len(parts) != len(type.elements):
            return f"{len(parts)} values", str(len(type.elements))
        pairs = zip(type.elements, parts, strict=True)
        differences = (_difference(element, part) for element, part in pairs)
        return next(filter(None, differences), None)
    if not isinstance(type, wir.TensorType) or not isinstance(found, torch.Tensor):
        return None
    dtype = element_type(found.dtype)
    same = dtype is type.dtype and len(found.shape) == len(type.size)
    if same and all(map(_may_be, type.size, found.shape)):
        return None
    return f"{dtype or found.dtype}[{_shown(type, found)}]", _declared(type)


def _shown(type: wir.TensorType, found: torch.Tensor) -> str:
    """Return the size of a tensor, with the declared extents where they are symbolic."""
    extents: list[object] = list(found.shape)
    if len(extents) == len(type.size):
        pairs = zip(type.size, extents, strict=True)
        extents = [f if isinstance(e, int) else format_expr(e) for e, f in pairs]
    return ", ".join(map(str, extents))


def _declared(type: wir.TensorType) -> str:
    return f"{type.dtype}[{', '.join(map(format_expr, type.size))}]"


def _may_be(declared: wir.Expr, found: object) -> bool:
    return not isinstance(declared, int) or not isinstance(found, int) or declared == found


def _is_symbolic(part: object) -> bool:
    match part:
        case wir.Symbol() | wir.Operation():
            return True
        case tuple():
            return any(map(_is_symbolic, cast(tuple[object, ...], part)))
        case wir.TensorType(size=size, stride=stride):
            return _is_symbolic(size) or _is_symbolic(stride)
        case _:
            return False


def _undeclared(line: wir.ExternKernelLine, operator: "Operator") -> Iterator[str]:
    given = given_arguments(schema_of(operator), line.arguments, dict(line.keywords))
    written = (argument for parameter, argument in given if parameter.is_written)
    names = (name for argument in written for name in buffers_in(argument))
    yield from (name for name in dict.fromkeys(names) if name not in line.writes)


def _near(name: str) -> str | None:
    """Return a hint with a registered operator of a similar name."""
    try:
        namespace, _, _ = split_operator(name)
    except UnknownOperatorError:
        return None
    names = (name.replace("::", ".") for name in registered_operators())
    own = (each for each in names if each.startswith(f"{namespace}."))
    return did_you_mean(name, [x if x.count(".") == 2 else f"{x}.default" for x in own])
