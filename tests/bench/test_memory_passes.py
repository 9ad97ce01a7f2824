"""The sweep of passes over memory finds what a pass does wrong."""

from collections import Counter
from collections.abc import Callable

import pytest
from attrs import evolve

from bench.sweep import memory_passes
from bench.sweep.memory_passes import TRANSFORMS, find_fault, format_table
from wrapperir import format_program, parse_program
from wrapperir.ir import ExternKernelLine, FreeLine, Program

PROGRAM = parse_program("""\
wrapperir 1

program @main(%x: f32[4]) {
  %a = allocate f32[4]
  extern_kernel aten.neg.out(%x, out = %a) writes(%a)
  %b = extern_kernel aten.abs.default(%a) : f32[4]
  free %a
  %c = extern_kernel aten.neg.default(%b) : f32[4]
  free %b
  return %c
}
""")


def no_frees(program: Program) -> Program:
    kept = [line for line in program.lines if not isinstance(line, FreeLine)]
    return evolve(program, lines=tuple(kept))


def late_frees(program: Program) -> Program:
    frees = [line for line in program.lines if isinstance(line, FreeLine)]
    return evolve(program, lines=(*no_frees(program).lines, *frees))


def other_operators(program: Program) -> Program:
    return evolve(
        program,
        lines=tuple(
            evolve(line, operator="aten.relu.default")
            if isinstance(line, ExternKernelLine) and line.operator == "aten.neg.default"
            else line
            for line in program.lines
        ),
    )


def nothing(program: Program) -> Program:
    raise RecursionError("too deep")


def fault_of(run: Callable[[Program], Program], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what is found of a pass, which names it and shows the program."""
    monkeypatch.setattr(memory_passes, "TRANSFORMS", {"broken": run})
    monkeypatch.setattr(memory_passes, "PIPELINES", (("broken",),))
    found = find_fault(PROGRAM, Counter())
    assert found is not None
    assert found.endswith(format_program(PROGRAM))
    return found


def test_passes_that_keep_the_program_right_have_no_fault() -> None:
    counts: Counter[str] = Counter()
    assert find_fault(PROGRAM, counts) is None
    assert counts["insert_frees"] == counts["use_out_variants"] == 1
    assert counts["merge_workspaces"] == 0


def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is never freed" in fault_of(no_frees, monkeypatch)
    assert "peak of the checker rose from 128 to 192" in fault_of(late_frees, monkeypatch)
    assert "value 0 has other values" in fault_of(other_operators, monkeypatch)
    assert "RecursionError: too deep" in fault_of(nothing, monkeypatch)


def test_a_program_that_is_wrong_itself_is_told_apart() -> None:
    found = find_fault(no_frees(PROGRAM), Counter())
    assert found is not None
    assert found.startswith("the program\n")


def test_the_table_adds_batches_up() -> None:
    page = format_table(
        [{"name": "0", "programs": 200, "free_early": 7}, {"name": "1", "programs": 100}]
    )
    assert "300 generated programs" in page
    assert "0 faults" in page
    assert all(f"| `{name}` |" in page for name in TRANSFORMS)
    assert "| `free_early` | 7 |" in page
