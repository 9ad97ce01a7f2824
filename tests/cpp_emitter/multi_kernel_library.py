"""One program with every way to choose between kernels: its parts, and what they return.

Kernels leave their numbers in ``%out``, an element a call, so the choice is seen.
"""

import textwrap

from wrapperir.ir import Program
from wrapperir.text import parse_program

QUICK, SLOW, START = 10_000, 1_000_000, 60_000_000
"""Steps of a kernel: the slow one takes a hundred times as long, a start far longer."""

ALIGNMENT = 4096
"""Bytes: of the argument of ``aligned``."""

SPIN = "volatile int64_t step = 0; while (step < {}) step = step + 1;"


def kernel(name: str, signature: str, c_parameters: str, *body: str) -> str:
    """Return the definition of a C++ kernel; with no other header, many compile at once."""
    code = "\n".join(
        [
            "#include <cstdint>",
            f'extern "C" void kernel({c_parameters}) {{',
            *(f"  {line}" for line in body),
            "}",
        ]
    )
    source = textwrap.indent(code, "    | ")
    return (
        f"kernel_definition @{name} cpp({signature}) {{\n  entry = kernel\n"
        f"  source {{\n{source}\n  }}\n}}\n"
    )


def _spinning(name: str, number: int, steps: int) -> str:
    return kernel(
        name,
        "p: read_write f32*, out: write i64*, at: i64, n: i64",
        "float* p, int64_t* out, int64_t at, int64_t n",
        SPIN.format(steps),
        "for (int64_t i = 0; i < n; ++i) p[i] += 1;",
        f"out[at] = {number};",
    )


def _reading(name: str, number: int, steps: int) -> str:
    return kernel(
        name,
        "a: read f32*, b: write f32*, out: write i64*, at: i64",
        "const float* a, float* b, int64_t* out, int64_t at",
        SPIN.format(steps),
        "for (int i = 0; i < 8; ++i) b[i] = 2 * a[i] + 1;",
        f"out[at] = {number};",
    )


def _marking(name: str, number: int) -> str:
    return kernel(
        name,
        "out: write i64*, at: i64",
        "int64_t* out, int64_t at",
        f"out[at] = {number};",
    )


KERNELS = "\n".join(
    [
        _spinning("add_slow", 0, SLOW),
        _spinning("add_slower", 1, SLOW),
        _spinning("add_quick", 2, QUICK),
        _spinning("add_idle", 3, SLOW),
        _reading("read_slow", 0, SLOW),
        _reading("read_quick", 1, QUICK),
        *(_marking(f"mark_{number}", number) for number in range(4)),
        kernel(
            "add_failing",
            "p: read_write f32*, out: write i64*, at: i64, n: i64",
            "float* p, int64_t* out, int64_t at, int64_t n",
            "if (p) throw 1;",
        ),
        # Its first run takes long.
        kernel(
            "add_starting",
            "p: read_write f32*, out: write i64*, at: i64, n: i64",
            "float* p, int64_t* out, int64_t at, int64_t n",
            f"static const bool has_started = [] {{ {SPIN.format(START)}",
            "  return true; }();",
            "for (int64_t i = 0; i < n; ++i) p[i] += 1;",
            "out[at] = has_started;",
        ),
        # It fails where its argument is not aligned as the program's is.
        kernel(
            "add_aligned",
            "p: read_write f32*, out: write i64*, at: i64, n: i64",
            "float* p, int64_t* out, int64_t at, int64_t n",
            f"if (reinterpret_cast<uintptr_t>(p) % {ALIGNMENT}) throw 1;",
            "for (int64_t i = 0; i < n; ++i) p[i] += 1;",
            "out[at] = 1;",
        ),
        # It fails where it finds its workspace other than zero, and leaves it so.
        kernel(
            "work_quick",
            "p: read_write f32*, work: read_write i64*, out: write i64*, at: i64",
            "float* p, int64_t* work, int64_t* out, int64_t at",
            "if (work[0] || work[3]) throw 1;",
            "work[0] = work[3] = 7;",
            "for (int i = 0; i < 8; ++i) p[i] += 1;",
            "out[at] = 1;",
        ),
        *(
            kernel(
                f"count_{number}",
                "out: read_write i64*, at: i64",
                "int64_t* out, int64_t at",
                "static int64_t runs;",
                "out[at] = __atomic_add_fetch(&runs, 1, __ATOMIC_RELAXED);",
                SPIN.format(steps),
            )
            for number, steps in enumerate((SLOW, QUICK))
        ),
        # What a settled multi-kernel does not run is not even built.
        kernel("unbuilt", "out: write i64*, at: i64", "int64_t*, int64_t", "no such code"),
    ]
)
_ADD = "p: read_write f32*, out: write i64*, at: i64, n: i64"
_READ = "a: read f32*, b: write f32*, out: write i64*, at: i64"
_MARK = "out: write i64*, at: i64"


def _multi(name: str, parameters: str, *parts: str) -> str:
    rows = "".join(f"  {part}\n" for part in parts)
    return f"multi_kernel @{name}({parameters}) {{\n{rows}}}\n"


def _among(*kernels: str, positions: str = "(0, 1, 2, 3)") -> list[str]:
    return [f"choice @{name}{positions}" for name in kernels]


_MARKS = _among("mark_0", "mark_1", "mark_2", "mark_3", positions="(1, 2)")
NEAREST_1 = "0: (1), 1: (16), 2: (64), 3: (100)"
NEAREST_2 = "3: (0, 7), 0: (64, 64), 1: (4096, 16), 2: (16, 4096), 1: (2000, 2000)"
COMPUTED = (
    "where(M * N <= 65536, where(M < N, 0, where(k > 3, 1, 2)), where(N % 2 == 0, 3, 0))"
)
# The product is odd where ints are exact; it is not as a float, which then has 53 bits.
EXACT = "where((k + M) * 562949953421311 % 2 == 1, 0, 1)"

MULTI_KERNELS = "\n".join(
    [
        _multi(
            "last", _ADD, *_among("add_slow", "add_slower", "add_quick"), "select benchmark"
        ),
        _multi("first", _ADD, *_among("add_quick", "add_slow"), "select benchmark"),
        _multi(
            "middle",
            _ADD,
            *_among("add_slow", "add_quick", "add_idle"),
            "select benchmark",
        ),
        _multi(
            "failing",
            _ADD,
            *_among("add_slow", "add_failing", "add_quick"),
            "select benchmark",
        ),
        *(
            _multi(name, _ADD, *_among(*kernels), "select benchmark")
            for name, *kernels in (
                ("starting", "add_quick", "add_starting"),
                ("aligned", "add_slow", "add_aligned"),
                ("emptied", "add_idle", "add_quick"),
            )
        ),
        _multi("reading", _READ, *_among("read_slow", "read_quick"), "select benchmark"),
        _multi(
            "working",
            "p: read_write f32*, work: read_write i64*, out: write i64*, at: i64, n: i64",
            "choice @add_slow(0, 2, 3, 4)",
            "choice @work_quick(0, 1, 2, 3)",
            "select benchmark",
        ),
        _multi(
            "counting",
            "out: read_write i64*, at: i64",
            *_among("count_0", "count_1", positions="(0, 1)"),
            "select benchmark",
        ),
        _multi(
            "near_rows",
            "s: read u8*, out: write i64*, at: i64",
            "size M = size(s, 0)",
            *_MARKS,
            f"select nearest_shape({NEAREST_1})",
        ),
        _multi(
            "near",
            "s: read u8*, out: write i64*, at: i64",
            "size M = size(s, 0)",
            "size N = size(s, 1)",
            *_MARKS,
            f"select nearest_shape({NEAREST_2})",
        ),
        _multi(
            "computed",
            "s: read u8*, out: write i64*, at: i64, k: i64",
            "size M = size(s, 0)",
            "size N = size(s, 1)",
            *_MARKS,
            f"select computed({COMPUTED})",
        ),
        _multi(
            "exact",
            "s: read u8*, out: write i64*, at: i64, k: i64",
            "size M = size(s, 0)",
            *_MARKS,
            f"select computed({EXACT})",
        ),
        *(
            _multi(
                f"settled_{name}",
                _MARK,
                *_among("unbuilt", "mark_1", positions="(0, 1)"),
                f"select {selection}",
            )
            for name, selection in (
                ("by_force", "forced(1)"),
                ("by_record", 'recorded(1) microseconds(2.5, 1.5) on "a GPU"'),
                ("by_size", "computed(1)"),
            )
        ),
    ]
)

CALLS = {
    "last": "kernel_call @last(%a, %out, 0, 8)",
    "first": "kernel_call @first(%b, %out, 1, 8)",
    "middle": "kernel_call @middle(%c, %out, 2, 8)",
    "failing": "kernel_call @failing(%d, %out, 3, 8)",
    "twice": "kernel_call @reading(%e, %e, %out, 4)",
    "overlapping": "kernel_call @reading(%f, %shifted, %out, 5)",
    "expanded": "kernel_call @reading(%g, %g_out, %out, 6)",
    "strided": "kernel_call @last(%strided, %out, 7, 37)",
    "subset": "kernel_call @working(%h, %work, %out, 8, 8)",
    "empty": "kernel_call @last(%none, %out, 9, s0 - s0)",
    "counting": "kernel_call @counting(%counts, 0)",
    "near_rows": "kernel_call @near_rows(%s, %out, 10)",
    "near": "kernel_call @near(%s, %out, 11)",
    "near, one size known": "kernel_call @near(%s_wide, %out, 12)",
    "near, all known": "kernel_call @near(%s_known, %out, 13)",
    "computed": "kernel_call @computed(%s, %out, 14, %k)",
    "computed, one size known": "kernel_call @computed(%s_wide, %out, 15, 4)",
    "by force": "kernel_call @settled_by_force(%out, 16)",
    "by record": "kernel_call @settled_by_record(%out, 17)",
    "by size": "kernel_call @settled_by_size(%out, 18)",
    "starting": "kernel_call @starting(%a, %out, 19, 0)",
    "aligned": "kernel_call @aligned(%page, %out, 20, 8)",
    "emptied": "kernel_call @emptied(%sometimes, %out, 21, s2)",
    "exact": "kernel_call @exact(%s, %out, 22, 2)",
    "exact, in floats": "kernel_call @exact(%s, %out, 23, 2.0)",
}
"""The calls in the outermost block; each but ``counting`` has an element of ``%out``."""
IN_LOOP, IN_BRANCH = 24, 25
"""Elements of ``%out`` of the calls in nested blocks."""

_INPUTS = """\
%a: mutated f32[8], %b: mutated f32[8], %c: mutated f32[8], %d: mutated f32[8],
%e: mutated f32[8], %f: mutated f32[16], %g: f32[2, 8; stride 0, 1],
%strided: mutated f32[4, 4; stride 10, 2], %h: mutated f32[8], %none: mutated f32[0, 3],
%counts: mutated i64[1], %s: u8[s0, s1], %s_wide: u8[s0, 100], %s_known: u8[3000, 2500],
%sometimes: mutated f32[s2]
"""
_BLOCKS = f"""\
%looped, %i = while_loop (%h, 0) (%out) : f32[8], i64 {{
  condition (%h1: f32[8], %i1: i64, %out1: i64[26]) {{
    symbol_definition ci: int = value(%i1)
    return ci < 2
  }}
  body (%h2: f32[8], %i2: i64, %out2: i64[26]) {{
    symbol_definition bi: int = value(%i2)
    %h3 = allocate f32[8]
    kernel_call @reading(%h2, %h3, %out2, {IN_LOOP})
    return %h3, bi + 1
  }}
}}
%branch = conditional s0 > s1 (%a, %s, %out) : i64 {{
  true (%a1: f32[8], %s1: u8[s0, s1], %out3: i64[26]) {{
    kernel_call @near(%s1, %out3, {IN_BRANCH})
    return 1
  }}
  false (%a2: f32[8], %s2: u8[s0, s1], %out4: i64[26]) {{
    kernel_call @first(%a2, %out4, {IN_BRANCH}, 8)
    return 0
  }}
}}
"""


def library() -> Program:
    """Return the program: its outputs are ``%out``, ``%g_out`` and ``%looped``."""
    calls = "".join(f"{call}\n" for call in CALLS.values()).replace("%k", "k")
    lines = f"""\
%out = allocate i64[26]
%work = allocate i64[4] workspace(zero_on_call)
%g_out = allocate f32[8]
%page = allocate f32[8] {{align = {ALIGNMENT}}} workspace(zero_on_call)
%shifted = reinterpret %f as f32[8; offset 4]
{calls}{_BLOCKS}free %page
free %shifted
free %work
return %out, %g_out, %looped
"""
    head = " ".join(_INPUTS.split())
    sizes = {"s0": "%s, 0", "s1": "%s, 1", "s2": "%sometimes, 0"}
    symbols = [f"{name}: int 0.. = size({of})" for name, of in sizes.items()]
    symbols += ["k: int = s0 - s1"]
    defined = "".join(f"  symbol {symbol}\n" for symbol in symbols)
    return parse_program(
        f"wrapperir 1\n\n{KERNELS}\n{MULTI_KERNELS}\n"
        f"program @main({head}) {{\n{defined}{textwrap.indent(lines, '  ')}}}\n"
    )
