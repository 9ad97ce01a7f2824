"""Texts of a multi-kernel and a program around it, and what the verifier says of them."""

from wrapperir.diagnostics import Code, Diagnostic
from wrapperir.text import parse_program
from wrapperir.verify import verify

PARAMETERS = "x: read f32*, ws: read_write f32*, out: write f32*, n: i64, t: f64"


def kernel(name: str, parameters: str, language: str = "cpp") -> str:
    grid = "" if language == "cpp" else "  grid = (1)\n"
    return f"""
kernel_definition @{name} {language}({parameters}) {{
{grid}  entry = {name}
  source {{
    | ...
  }}
}}
"""


KERNELS = (
    kernel("plain", "x: read f32*, out: write f32*, n: i64")
    + kernel("split", "x: read f32*, ws: read_write f32*, out: write f32*, n: i64")
    + kernel("other", "x: read f32*, ws: read_write f32*, out: write f32*, n: i64")
    + kernel("reads", "x: read f32*, ws: read f32*, out: write f32*, n: i64")
)


def found(body: str, lines: str = "", select: str = "benchmark") -> tuple[Diagnostic, ...]:
    text = f"""wrapperir 1
{KERNELS}
multi_kernel @any({PARAMETERS}) {{
{body}
  select {select}
}}

program @main(%x: f32[s0, 8], %y: mutated f32[s0, 8], %v: f32[64], %w: mutated f32[64]) {{
  symbol s0: int 2..100 = size(%x, 0)

{lines}
  return
}}
"""
    return verify(parse_program(text))


def codes(body: str, lines: str = "", select: str = "benchmark") -> list[Code]:
    return [diagnostic.code for diagnostic in found(body, lines, select)]


PLAIN = "  choice @plain(0, 2, 3)"


BOTH = f"{PLAIN}\n  choice @split(0, 1, 2, 3)"


SIZES = "  size M = size(x, 0)\n  size N = size(x, 1)\n"


CALL = "  kernel_call @any(%x, %ws, %y, 8, 0)"
