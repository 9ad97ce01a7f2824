"""Tunes a small program and shows the choices, with their reasons.

The program has two multi-kernels of C++ kernels: sums of rows with dynamic sizes, and sums
of columns with static sizes.  The tuned program must give the same with every emitter.
"""

import time
from collections.abc import Iterator, Sequence

import torch
from rich.console import Console
from rich.markup import escape

from wrapperir.emit import compile_program
from wrapperir.interp import interpret
from wrapperir.ir import (
    Access,
    BenchmarkChoice,
    BufferParameter,
    DType,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    Program,
    ScalarParameter,
    SizeOf,
    Symbol,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.text import format_line
from wrapperir.tuning.choice_cache import fresh_choice_cache
from wrapperir.tuning.text import format_tuning
from wrapperir.tuning.tune import tune_program

EMITTERS = ("python", "cpp", "fx")
SAMPLES, SECONDS = 24, 0.02
TABLE = (600, 700)
"""The size of the matrix whose columns are summed."""
SHAPES = ((1, 1), (3, 1000), (2000, 3), (257, 129))
"""Sizes of the matrix whose rows are summed."""


def _kernel(name: str, *body: str) -> KernelDefinitionLine:
    """Return a kernel that sums a matrix of (rows, columns) in one way or another."""
    code = "\n    ".join(body)
    return KernelDefinitionLine(
        name=name,
        language=Language.CPP,
        parameters=(
            BufferParameter("matrix", DType.F32, Access.READ),
            BufferParameter("sums", DType.F32, Access.WRITE),
            ScalarParameter("rows", DType.I64),
            ScalarParameter("columns", DType.I64),
        ),
        entry="kernel",
        source=f"""\
#include <cstdint>
#include <cstring>
extern "C" void kernel(const float* matrix, float* sums, int64_t rows, int64_t columns) {{
    {code}
}}
""",
    )


ROW_BY_ROW = _kernel(
    "row_by_row",
    "typedef float Lanes __attribute__((vector_size(32)));",
    "for (int64_t i = 0; i < rows; ++i) {",
    "    const float* row = matrix + i * columns;",
    "    Lanes even = {}, odd = {};",
    "    int64_t j = 0;",
    "    for (; j + 16 <= columns; j += 16) {",
    "        Lanes two[2];",
    "        std::memcpy(two, row + j, 64);",
    "        even += two[0];",
    "        odd += two[1];",
    "    }",
    "    float sum = 0;",
    "    for (; j < columns; ++j) sum += row[j];",
    "    even += odd;",
    "    for (int k = 0; k < 8; ++k) sum += even[k];",
    "    sums[i] = sum;",
    "}",
)
SIXTEEN_ROWS = _kernel(
    "sixteen_rows",
    "int64_t i = 0;",
    "for (; i + 16 <= rows; i += 16) {",
    "    float sum[16] = {};",
    "    for (int64_t j = 0; j < columns; ++j)",
    "        for (int k = 0; k < 16; ++k) sum[k] += matrix[(i + k) * columns + j];",
    "    for (int k = 0; k < 16; ++k) sums[i + k] = sum[k];",
    "}",
    "for (; i < rows; ++i) {",
    "    sums[i] = 0;",
    "    for (int64_t j = 0; j < columns; ++j) sums[i] += matrix[i * columns + j];",
    "}",
)
DOWN_COLUMNS = _kernel(
    "down_columns",
    "for (int64_t j = 0; j < columns; ++j) {",
    "    float sum = 0;",
    "    for (int64_t i = 0; i < rows; ++i) sum += matrix[i * columns + j];",
    "    sums[j] = sum;",
    "}",
)
AROW_BY_ROW = _kernel(
    "along_rows",
    "for (int64_t j = 0; j < columns; ++j) sums[j] = 0;",
    "for (int64_t i = 0; i < rows; ++i)",
    "    for (int64_t j = 0; j < columns; ++j) sums[j] += matrix[i * columns + j];",
)
BLOCKS_OF_COLUMNS = _kernel(
    "blocks_of_columns",
    "for (int64_t b = 0; b < columns; b += 64) {",
    "    int64_t width = columns - b < 64 ? columns - b : 64;",
    "    float sum[64] = {};",
    "    for (int64_t i = 0; i < rows; ++i)",
    "        for (int64_t j = 0; j < width; ++j) sum[j] += matrix[i * columns + b + j];",
    "    for (int64_t j = 0; j < width; ++j) sums[b + j] = sum[j];",
    "}",
)


def example() -> Program:
    """Return the program, whose choices are to be made by timing."""
    b = ProgramBuilder("sums")
    rows, columns = Symbol("rows"), Symbol("columns")
    x = b.input(tensor("f32", (rows, columns)), name="x")
    b.symbol("rows", SizeOf("x", 0), lower=1, upper=4096)
    b.symbol("columns", SizeOf("x", 1), lower=1, upper=4096)
    table = b.input(tensor("f32", TABLE), name="table")
    row_sums = b.multi_kernel(
        [b.kernel(kernel) for kernel in (ROW_BY_ROW, SIXTEEN_ROWS)],
        name="row_sums",
        selection=BenchmarkChoice(),
    )
    column_sums = b.multi_kernel(
        [b.kernel(kernel) for kernel in (DOWN_COLUMNS, AROW_BY_ROW, BLOCKS_OF_COLUMNS)],
        name="column_sums",
        selection=BenchmarkChoice(),
    )
    of_rows = b.allocate(tensor("f32", (rows,)))
    b.call(row_sums, x, of_rows, rows, columns)
    of_columns = b.allocate(tensor("f32", (TABLE[1],)))
    b.call(column_sums, table, of_columns, *TABLE)
    return b.build(of_rows, of_columns)


def show_choices(console: Console) -> list[str]:
    """Tune the example, print the choices, and return the faults."""
    program = example()
    with fresh_choice_cache() as cache:
        tuned, again = (
            tune_program(program, cache=cache, samples=SAMPLES, seconds=SECONDS)
            for _ in range(2)
        )
    console.print(escape(format_tuning(tuned.report)), soft_wrap=True)
    report = again.report
    console.print(
        f"tuned again: {report.cached} of {report.cases} cases known, "
        f"{report.seconds:.2f} s instead of {tuned.report.seconds:.2f} s"
    )
    console.print("in the program:")
    for line in tuned.program.definitions:
        if isinstance(line, MultiKernelLine):
            console.print(escape(format_line(line)), soft_wrap=True)
    failures = [] if again.program == tuned.program else ["the cache has other choices"]
    start = time.perf_counter()
    failures += _differences(tuned.program)
    spent = time.perf_counter() - start
    verdict = "failed" if failures else "agree"
    console.print(
        f"interpreter, {', '.join(EMITTERS)} at {len(SHAPES)} shapes: {verdict} "
        f"({spent:.1f} s with compiling)"
    )
    return failures


def _differences(program: Program) -> Iterator[str]:
    """Yield where an emitter and the interpreter, or that and eager, do not agree."""
    compiled = {name: compile_program(program, emitter=name) for name in EMITTERS}
    torch.manual_seed(0)
    table = torch.randn(TABLE)
    for shape in SHAPES:
        x = torch.randn(shape)
        expected = _tensors(interpret(program, [x, table], {}))
        for actual, eager in zip(expected, (x.sum(1), table.sum(0)), strict=True):
            if not torch.allclose(actual, eager, rtol=1e-3, atol=1e-3):
                yield f"the interpreter and eager differ at {shape}"
        for name, call in compiled.items():
            results = _tensors(call([x, table]))
            if not all(map(torch.equal, expected, results)):
                yield f"the interpreter and {name} differ at {shape}"


def _tensors(values: Sequence[object]) -> list[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor)]


if __name__ == "__main__":
    raise SystemExit(bool(show_choices(Console(highlight=False))))
