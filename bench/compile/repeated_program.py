"""Programs repeated to many times their length, to measure the cost of length."""

import re

from wrapperir.ir import BufferRef, FreeLine, Program
from wrapperir.text import format_program, parse_program

_NAME = re.compile(r"%(\w+)")


def repeat_program(program: Program, times: int) -> Program:
    """Return a program that does what ``program`` does ``times`` over.

    It must have static sizes.  Every repetition has names of its own; of the results the
    last are returned, and inputs are freed by the last.
    """
    assert not program.symbols, "a program of static sizes"
    outside = {i.name for i in program.inputs} | {c.name for c in program.constants}
    text = format_program(program)
    begin = text.index("\n", text.rindex("\nprogram @") + 1) + 1
    head, body = text[:begin], text[begin:].splitlines()
    end = next(n for n, line in enumerate(body) if line.startswith("  return"))
    frees = {f"  free %{i}" for i in outside}
    kept = [line for line in body[:end] if line.split(" from(")[0] not in frees]
    outputs = {o.name for o in program.outputs if isinstance(o, BufferRef)}
    kept += [f"  free %{name}" for name in sorted(outputs - outside)]
    copies = [_renamed(line, n, outside) for n in range(times - 1) for line in kept]
    copies += [_renamed(line, times - 1, outside) for line in body]
    repeated = parse_program(head + "\n".join(copies) + "\n")
    freed = [line for line in repeated.lines if isinstance(line, FreeLine)]
    assert len(freed) >= len(program.lines) - len(kept), "every input is freed once"
    return repeated


def _renamed(line: str, number: int, outside: set[str]) -> str:
    def name(found: re.Match[str]) -> str:
        return found[0] if found[1] in outside else f"{found[0]}_{number}"

    return _NAME.sub(name, line)
