"""Expressions and literals in C have the values that the IR gives them."""

import ctypes
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from wrapperir.emit import Fragment
from wrapperir.emit.c import HEADERS
from wrapperir.emit.c.expressions import (
    CExpressions,
    element_type,
    format_float,
    format_int,
    format_string,
    identifiers_in,
)
from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.ir import (
    DType,
    EvaluationError,
    Expr,
    ExprOp,
    Operation,
    Symbol,
    SymbolKind,
    evaluate,
)
from wrapperir.kernels import compile_object, find_compiler, link_library

A, B, X = Symbol("a"), Symbol("b"), Symbol("x")
KINDS = NumberKinds({"x": SymbolKind.FLOAT})


def op(name: str, *args: Expr) -> Operation:
    return Operation(ExprOp(name), args)


WHOLE: Sequence[Expr] = [
    *(op(name, A, B) for name in ("add", "sub", "mul", "floordiv", "mod", "ceildiv")),
    *(op(name, A, B) for name in ("min", "max", "eq", "ne", "lt", "le", "gt", "ge")),
    *(
        op("neg", A),
        op("not", A),
        op("trunc", X),
        op("trunc", A),
        op("add", A, B, 1, -(2**62)),
        op("mul", A, B, 3),
    ),
    op("and", A, op("lt", op("floordiv", 7, A), B)),
    op("or", op("eq", A, 0), op("lt", op("mod", 7, A), B)),
    op("where", op("eq", B, 0), A, op("floordiv", A, B)),
    op("lt", X, 0.5),
    *(op(name, X, 1) for name in ("eq", "le", "gt")),
    *(op("mul", A, 2**62), op("sub", -(2**63), A), op("neg", op("sub", A, 2**62))),
]
REAL: Sequence[Expr] = [
    *(op(name, X, 0.1) for name in ("add", "sub", "mul", "truediv")),
    *(op("mul", X, A), op("truediv", 1.5, X), op("neg", X), op("to_float", A)),
    op("where", op("lt", A, B), X, op("truediv", X, 0.0)),
]
NUMBERS = (0, 1, -1, 2, -7, 100, 2**53 + 1, 2**62, -(2**63))
REALS = (0.0, 0.5, -2.25, 1e300)


def refuse(message: str) -> None:
    raise AssertionError(message)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    symbols = {name: Fragment(name) for name in "abx"}
    expressions = CExpressions(symbols, KINDS, refuse)
    texts = ['#include "wir_numbers.h"\n']
    for index, expr in enumerate([*WHOLE, *REAL]):
        kind = SymbolKind.INT if index < len(WHOLE) else SymbolKind.FLOAT
        kind_in_c = "int64_t" if kind is SymbolKind.INT else "double"
        texts.append(
            f"{kind_in_c} f{index}(int64_t a, int64_t b, double x, const char **out) {{\n"
            f"  const char *fault = 0;\n  (void)a, (void)b, (void)x;\n"
            f"  {kind_in_c} value = {expressions.format_number(expr, kind)};\n"
            f"  *out = fault;\n  return value;\n}}\n"
        )
    headers = {path.name: path.read_text() for path in HEADERS}
    flags = ("-xc", "-std=c11", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror")
    compiler = find_compiler()
    main = compile_object(compiler, "expressions.c", "".join(texts), headers, flags)
    return ctypes.CDLL(str(link_library(compiler, "expressions", [main], (), ("f*",))))


def value_in_c(
    library: ctypes.CDLL, index: int, given: tuple[int, int, float]
) -> int | float | None:
    function = library[f"f{index}"]
    is_whole = index < len(WHOLE)
    function.restype = ctypes.c_int64 if is_whole else ctypes.c_double
    fault = ctypes.c_char_p()
    a, b, x = given
    number: int | float = function(
        ctypes.c_int64(a), ctypes.c_int64(b), ctypes.c_double(x), ctypes.byref(fault)
    )
    return None if fault.value is not None else number


@pytest.mark.parametrize("index", range(len(WHOLE) + len(REAL)))
def test_values_are_those_of_the_ir(library: ctypes.CDLL, index: int) -> None:
    expr = [*WHOLE, *REAL][index]
    checked = 0
    for a in NUMBERS:
        for b in NUMBERS:
            for x in REALS:
                found = value_in_c(library, index, (a, b, x))
                try:
                    wanted = evaluate(expr, {"a": a, "b": b, "x": x})
                except EvaluationError:
                    assert found is None
                    continue
                if found is None:  # a step does not fit 64 bits
                    continue
                assert found == wanted, (a, b, x)
                checked += 1
    assert checked


def test_what_c_cannot_express_is_reported() -> None:
    said: list[str] = []
    expressions = CExpressions({"x": Fragment("x"), "n": Fragment("n")}, KINDS, said.append)
    expressions.format_index(op("log2", X))
    expressions.format_index(op("lt", X, Symbol("n")))
    expressions.format_index(op("min", X, 1.0))
    expressions.format_index(2**64)
    assert said == [
        "there is no C for log2 of these numbers",
        "there is no C for lt of numbers of several kinds",
        "there is no C for min of these numbers",
        "18446744073709551616 does not fit 64 bits",
    ]


def test_literals() -> None:
    assert format_int(-(2**63)) == "INT64_MIN"
    assert format_int(True) == "1"
    assert format_int(2**40) == "INT64_C(1099511627776)"
    with pytest.raises(ValueError, match="64 bits"):
        format_int(2**63)
    assert float.fromhex(format_float(0.1)) == 0.1
    assert format_float(-math.inf) == "(-__builtin_inf())"
    assert format_float(math.nan) == '__builtin_nan("")'
    assert format_string('a"\\\n?') == '"a\\042\\134\\012\\077"'
    assert element_type(DType.BF16) is None
    assert element_type(DType.BOOL) == "bool"


def test_names_in_a_header_are_found() -> None:
    found = identifiers_in(Path(HEADERS[0]).read_text())
    assert {"wir_value", "source", "int64_t"} <= found
