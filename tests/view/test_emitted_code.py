"""The code of emitters beside a program, and what refuses it."""

from tests.view.small_program import PROGRAM
from wrapperir.emit.pipeline import find_emitter
from wrapperir.text import parse_program
from wrapperir.view.emitted_code import emit_codes
from wrapperir.view.links import EmittedCode

TRITON = """\
wrapperir 1

kernel_definition @twice triton(x: read f32*, y: write f32*) {
  grid = (1)
  entry = twice
  source {
    | @triton.jit
    | def twice(x, y):
    |     tl.store(y, tl.load(x) * 2)
  }
}

program @main(%x: f32[1]) {
  %y = allocate f32[1]
  kernel_call @twice(%x, %y)
  free %x
  return %y
}
"""


def emitted(text: str, name: str) -> EmittedCode:
    (code,) = emit_codes(parse_program(text), [find_emitter(name)])
    return code


def rows_of(code: EmittedCode, line: int | None = None, kernel: int | None = None) -> str:
    return "\n".join(
        row.strip()
        for file in code.files
        for found in file.ranges
        if (found.line, found.kernel) == (line, kernel)
        for row in file.text.split("\n")[found.begin - 1 : found.end]
    )


def test_ranges_of_each_emitter_are_of_what_a_line_became() -> None:
    assert "del x" in rows_of(emitted(PROGRAM, "python"), line=1)
    assert "fused(y, z)" in rows_of(emitted(PROGRAM, "python"), line=4)
    assert "cpp_fused(" in rows_of(emitted(PROGRAM, "cpp"), line=4)
    assert "call_kernel" in rows_of(emitted(PROGRAM, "fx"), line=4)


def test_kernels_are_found_in_the_files_that_hold_their_sources() -> None:
    for name in ("python", "cpp"):
        found = rows_of(emitted(PROGRAM, name), kernel=0)
        assert "for (int i = 0; i < 64; ++i)" in found
        assert "aten" not in found


def test_a_kernel_s_own_file_is_the_kernel() -> None:
    code = emitted(TRITON, "python")
    assert "tl.store" in rows_of(code, kernel=0)


def test_a_refusal_has_its_code_and_reason() -> None:
    code = emitted(TRITON, "cpp")
    assert code.files == ()
    (reason,) = code.refusals
    assert reason.startswith("WIR7")
    assert "kernels in triton do not run on cpu" in reason


def test_the_program_itself_is_no_code() -> None:
    assert [file.path for file in emitted(PROGRAM, "fx").files] == ["graph.py"]
