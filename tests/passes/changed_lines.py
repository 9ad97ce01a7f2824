"""What a pass over memory makes of the lines of a program."""

from collections.abc import Callable

from wrapperir import format_program, parse_program
from wrapperir.analysis import analyze_memory
from wrapperir.ir import Program
from wrapperir.verify import verify


def lines_after(run: Callable[[Program], Program], body: str, head: str, begin: str) -> str:
    """Return the lines of a program after a pass, without those that it begins with.

    Both programs must be valid, a second run must change nothing, and the peak must not
    rise.
    """
    program = parse_program(f"wrapperir 1\n\nprogram @main({head}) {{\n{begin}{body}}}\n")
    assert verify(program) == ()
    changed = run(program)
    assert verify(changed) == ()
    assert run(changed) == changed
    assert analyze_memory(changed, {}).peak <= analyze_memory(program, {}).peak
    return format_program(changed).split(f"{{\n{begin}", 1)[1][:-2].lstrip("\n")
