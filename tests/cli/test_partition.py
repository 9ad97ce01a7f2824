"""``wrapperir partition``, and two emitters where one is named."""

from pathlib import Path

from tests.cli.files import invoke
from wrapperir.text import parse_program

TWO_KINDS = """\
wrapperir 1

kernel_definition @double triton(p: read_write f32*) {
  grid = (1)
  entry = double
  source {
    | import triton
    | import triton.language as tl
    |
    | @triton.jit
    | def double(p):
    |     at = tl.arange(0, 8)
    |     tl.store(p + at, tl.load(p + at) * 2)
  }
}

program @main(%x: mutated f32[8]) {
  %a = extern_kernel aten.relu.default(%x) : f32[8]
  kernel_call @double(%x)
  %b = extern_kernel aten.neg.default(%x) : f32[8]
  return %a, %b
}
"""


def test_the_report_names_lines_as_the_file_does(folder: Path) -> None:
    (folder / "two.wir").write_text(TWO_KINDS)
    result = invoke("partition", "--emitter", "cpp+python", "two.wir")
    assert result.exit_code == 0
    assert "@main: 2 of 3 calls (67 %) on cpp, 1 on python; 3 parts" in result.stdout
    assert "  line 19, feature: kernels in triton do not run on cpu\n" in result.stdout


def test_parts_are_written_and_read_back(folder: Path) -> None:
    (folder / "two.wir").write_text(TWO_KINDS)
    result = invoke("emit", "--emitter", "cpp+python", "two.wir", "-o", "out")
    assert result.exit_code == 0
    parts = [parse_program(path.read_text()) for path in sorted(folder.glob("out/*.wir"))]
    assert [len(part.definitions) for part in parts] == [0, 0, 1, 0]
    assert (folder / "out/partition.txt").read_text().startswith("@main: 2 of 3 calls")


def test_two_emitters_run_a_program(folder: Path) -> None:
    (folder / "two.wir").write_text(TWO_KINDS)
    alone = invoke("run", "two.wir")
    both = invoke("run", "--emitter", "fx+python", "two.wir")
    assert (both.exit_code, both.stdout) == (0, alone.stdout)


def test_wrong_emitters(folder: Path) -> None:
    (folder / "two.wir").write_text(TWO_KINDS)
    result = invoke("partition", "--emitter", "cpp", "two.wir")
    assert result.exit_code == 2
    assert "--emitter is two names, such as cpp+python" in result.stderr
    result = invoke("partition", "--emitter", "cpp+", "two.wir")
    assert result.exit_code == 1
    assert "WIR700: no emitter is named ''" in result.stderr
