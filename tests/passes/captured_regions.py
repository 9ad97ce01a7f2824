"""Programs for the capture of graph regions, and what is in the regions."""

import math

from wrapperir.ir import GraphRegionLine, Program
from wrapperir.passes import Captured, capture_regions
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify


def captured(program: Program) -> Captured:
    """Capture on any device, whatever a replay costs."""
    return capture_regions(program, None, -math.inf, collectives=True)


def regions(program: Program) -> list[GraphRegionLine]:
    return [line for line in program.lines if isinstance(line, GraphRegionLine)]


def cuda(
    lines: str,
    *,
    outputs: str = "",
    entry: str = "%x: f32[8, 8]@cuda",
    origins: str = "",
) -> Program:
    """Return a program with these lines, which is valid."""
    program = parse_program(f"""\
wrapperir 1

program @main({entry}) {{
{lines}
  return {outputs}
}}

origins {{
{origins}
}}
""")
    assert verify(program) == ()
    return program


def body_of(program: Program) -> str:
    """Return the text of a program's lines and outputs."""
    text = format_program(program)
    return text[text.index("{\n") + 2 : text.rindex("}")]


CALL = "extern_kernel aten.mm.out({0}, {0}, out = {1}) writes({1}) @cuda"


def mm(source: str, target: str) -> str:
    """Return a call that reads one tensor and writes another."""
    return f"  {CALL.format(source, target)}"
