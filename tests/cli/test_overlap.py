"""``wrapperir overlap``."""

from pathlib import Path

from tests.cli.files import invoke

SUMS = """wrapperir 1

program @main(%a: mutated f32[64], %b: mutated f32[64], %x: f32[64, 64]) {
  group "0" size 2

  %v = collective all_reduce(sum) "0" reads(%a) writes(%a)
  wait_collective %v reads(%a) writes(%a)
  %w = collective all_reduce(sum) "0" reads(%b) writes(%b)
  wait_collective %w reads(%b) writes(%b)
  %y = extern_kernel aten.mm.default(%x, %x) : f32[64, 64]
  return %y
}
"""


def test_the_report_names_what_is_merged_and_hidden(folder: Path) -> None:
    (folder / "sums.wir").write_text(SUMS)
    result = invoke("overlap", "sums.wir")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("@main: 2 collectives")
    assert "merged" not in result.stdout
    result = invoke("overlap", "--merge", "sums.wir")
    assert result.exit_code == 0, result.output
    assert (
        result.stdout
        == """\
@main: 1 collective, with the speeds of cpu
  merged: 2 × all_reduce(sum) "0", 512 bytes: 220 µs become 110 µs
  121 µs become 110 µs, at least 110 µs
  peak 16 KiB becomes 16 KiB, at most 16.3 KiB
  line 6, all_reduce(sum) "0", 512 bytes: 110 µs, hidden 0 µs → 10 µs by 0 → 1 call
"""
    )


def test_a_program_that_was_overlapped_says_so(folder: Path) -> None:
    (folder / "sums.wir").write_text(SUMS)
    assert "has run on this program" not in invoke("overlap", "sums.wir").stdout
    result = invoke("overlap", "--pass", "overlap_collectives", "sums.wir")
    assert "\n  overlap_collectives has run on this program: " in result.stdout


def test_an_unknown_machine_is_an_error(folder: Path) -> None:
    (folder / "sums.wir").write_text(SUMS)
    result = invoke("overlap", "--machine", "abacus", "sums.wir")
    assert result.exit_code == 1
    assert "WIR742: there is no machine 'abacus'" in result.output
