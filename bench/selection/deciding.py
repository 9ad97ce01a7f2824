"""Time of deciding: C functions of decision trees and of hints, and their nanoseconds."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.selection.table import Sizes
from wrapperir.ir import Expr, ExprOp, Hint, Operation, Symbol

_INFIX = {
    ExprOp.ADD: "+",
    ExprOp.SUB: "-",
    ExprOp.MUL: "*",
    ExprOp.LT: "<",
    ExprOp.LE: "<=",
    ExprOp.GT: ">",
    ExprOp.GE: ">=",
    ExprOp.EQ: "==",
    ExprOp.NE: "!=",
    ExprOp.AND: "&&",
    ExprOp.OR: "||",
    ExprOp.FLOORDIV: "/",  # of sizes, which are never negative
    ExprOp.MOD: "%",
}

_LOOP = """
#include <time.h>
double seconds(const long *sizes, long count, long rounds) {
  struct timespec begin, end;
  volatile long sink = 0;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (long round = 0; round < rounds; ++round)
    for (long at = 0; at < count; ++at) sink += decide(sizes + DIMENSIONS * at);
  clock_gettime(CLOCK_MONOTONIC, &end);
  return end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec);
}
"""


def tree_microseconds(tree: Expr, names: Sequence[str], shapes: Sequence[Sizes]) -> float:
    """Return the time of a decision tree, the mean over shapes that take turns."""
    places = {name: f"s[{at}]" for at, name in enumerate(names)}
    body = f"return {_c_text(tree, places)};"
    return _microseconds(body, shapes) - _microseconds("return *s;", shapes)


def nearest_microseconds(hints: Sequence[Hint], shapes: Sequence[Sizes]) -> float:
    """Return the time of comparing hints by the rule of ``wrapperir.ir.selection``."""
    rows = ", ".join(
        "{" + ", ".join(f"{float(size) or 0.5}" for size in hint.sizes) + "}"
        for hint in hints
    )
    choices = ", ".join(str(hint.choice) for hint in hints)
    dimensions, count = len(hints[0].sizes), len(hints)
    body = f"""
    static const double hints[{count}][{dimensions}] = {{{rows}}};
    static const long choices[{count}] = {{{choices}}};
    double least = 1e300;
    long best = 0;
    for (int h = 0; h < {count}; ++h) {{
      double ratio = 1;
      for (int d = 0; d < {dimensions}; ++d) {{
        double x = s[d] ? (double)s[d] : 0.5, y = hints[h][d];
        ratio *= x > y ? x / y : y / x;
      }}
      if (ratio < least) least = ratio, best = choices[h];
    }}
    return best;"""
    return _microseconds(body, shapes) - _microseconds("return *s;", shapes)


def _c_text(tree: Expr, places: dict[str, str]) -> str:
    if isinstance(tree, Symbol):
        return places[tree.name]
    if not isinstance(tree, Operation):
        return f"{tree}L" if isinstance(tree, int) else repr(tree)
    args = [_c_text(arg, places) for arg in tree.args]
    if tree.op is ExprOp.WHERE:
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if tree.op is ExprOp.CEILDIV:
        return f"(({args[0]} + {args[1]} - 1) / {args[1]})"
    if tree.op in (ExprOp.MAX, ExprOp.MIN) and len(args) == 2:
        sign = ">" if tree.op is ExprOp.MAX else "<"
        return f"({args[0]} {sign} {args[1]} ? {args[0]} : {args[1]})"
    return "(" + f" {_INFIX[tree.op]} ".join(args) + ")"


def _microseconds(body: str, shapes: Sequence[Sizes]) -> float:
    dimensions = len(shapes[0])
    text = (
        f"#define DIMENSIONS {dimensions}\n"
        "static __attribute__((noinline)) long decide(const long *s) {"
        f"{body}}}\n{_LOOP}"
    )
    compiler = shutil.which(os.environ.get("CC", "cc")) or "cc"
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "decide.c"), Path(folder, "decide.so")
        source.write_text(text)
        command = [compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(built)]
        subprocess.run(command, check=True)
        library = ctypes.CDLL(str(built))
        library.seconds.restype = ctypes.c_double
        flat = [size for shape in shapes for size in shape]
        sizes = (ctypes.c_long * len(flat))(*flat)
        rounds = max(1, 200_000 // len(shapes))
        best: float = min(
            library.seconds(sizes, ctypes.c_long(len(shapes)), ctypes.c_long(rounds))
            for _ in range(7)
        )
    return best / rounds / len(shapes) * 1e6
