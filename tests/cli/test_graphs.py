"""``wrapperir graphs``, and ``--graphs`` of ``compile``."""

from pathlib import Path

import wrapperir
from tests.cli.files import invoke
from wrapperir.text import parse_program

CHAIN = """\
wrapperir 1

program @main(%x: f32[64]@cuda) {
  %a = extern_kernel aten.sin.default(%x) @cuda : f32[64]@cuda
  free %x
  %b = extern_kernel aten.nonzero.default(%a) @cuda : i64[u0, 1]@cuda
  symbol_definition u0: int 0..64 = size(%b, 0)
  free %b
  %c = extern_kernel aten.cos.default(%a) @cuda : f32[64]@cuda
  %d = extern_kernel aten.exp.default(%c) @cuda : f32[64]@cuda
  free %a
  free %c
  return %d
}
"""


def test_the_report_names_lines_as_the_file_does(folder: Path) -> None:
    (folder / "chain.wir").write_text(CHAIN)
    result = invoke("graphs", "chain.wir")
    assert result.exit_code == 0
    assert (
        result.stdout
        == """\
@main: 1 graph region with 2 calls; replay saves about 7 µs of host time
  @graph0, lines 9 to 10, on cuda: 2 calls, 1 operand, 1 copied result, 7 µs
outside: operator (1), symbol (1), no gain (1)
  line 4, no gain: replay of the calls around it would save 0 µs
    %a = extern_kernel aten.sin.default(%x) @cuda : f32[64]@cuda
  line 6, operator: it returns a tensor whose size depends on data
    %b = extern_kernel aten.nonzero.default(%a) @cuda : i64[u0, 1]@cuda
  line 7, symbol: later lines may use u0
    symbol_definition u0: int 0..64 = size(%b, 0)
"""
    )


def test_passes_run_before(folder: Path) -> None:
    (folder / "chain.wir").write_text(CHAIN.replace("  free %x\n", ""))
    result = invoke("graphs", "--pass", "insert_frees", "chain.wir")
    assert "@graph0, lines 9 to 10" in result.stdout


def test_a_captured_program_is_reported_with_its_regions(folder: Path) -> None:
    (folder / "chain.wir").write_text(CHAIN)
    result = invoke("opt", "--pass", "capture_graphs", "chain.wir", "-o", "captured.wir")
    assert result.exit_code == 0
    report = invoke("graphs", "captured.wir").stdout
    assert "1 graph region with 2 calls" in report
    assert "@graph0, lines 9 to 9, on cuda" in report


def test_a_program_for_the_cpu_has_no_region(folder: Path) -> None:
    report = invoke("graphs", "add.wir").stdout
    assert "0 graph regions" in report
    assert "line 8, device without graphs: there are no graphs for cpu" in report


def test_a_program_with_errors_is_refused(folder: Path) -> None:
    (folder / "bad.wir").write_text(CHAIN.replace("free %c", "free %e"))
    result = invoke("graphs", "bad.wir")
    assert result.exit_code == 1
    assert "WIR103" in result.stderr


def test_compile_captures_graphs(folder: Path) -> None:
    (folder / "chain.wir").write_text(CHAIN)
    result = invoke("compile", "--graphs", "chain.wir", "-o", "out")
    assert result.exit_code == 0, result.output
    text = (folder / "out" / "program.wir").read_text()
    assert "graph_region @graph0" in text
    parse_program(text)
    needed = {
        "graphs.py",
        "graphs.cpp",
        "graph_captures.py",
        "recording.h",
        "driver_functions.h",
    }
    assert needed <= {path.name for path in (folder / "out" / "python").iterdir()}
    assert callable(wrapperir.load(folder / "out"))
    result = invoke("compile", "--graphs", "--pass", "insert_frees", "chain.wir", "-o", "b")
    assert "graph_region @graph0" in (folder / "b" / "program.wir").read_text()
    assert invoke("graphs", "out").stdout.startswith("@main: 1 graph region")
