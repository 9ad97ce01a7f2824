import json
from pathlib import Path

import pytest

from tests.cli.files import ADD, broken, invoke
from tests.report.test_memory_changes import TEXT as MEMORY
from wrapperir.diagnostics import Code
from wrapperir.passes import MEMORY_PASSES

PLANNED = """\
wrapperir 1

program @main(%x: f32[64]) {
  %pool = allocate_pool pool[512]
  %a = place f32[64] in %pool at 256
  extern_kernel aten.sin.out(%x, out = %a) writes(%a)
  free %pool
  free %x
  return %a
}
"""


def test_the_summary_and_the_largest_buffers(folder: Path) -> None:
    result = invoke("memory", "add.wir")
    assert result.exit_code == 0
    assert (
        result.stdout
        == """\
memory of @main in add.wir
with s0 = 64 (not given; of 1..64)

as given, cpu:
  peak           1.25 KiB (1,280 bytes) at line 8, 1.000 of the lower bound
  taken for      %y
  lower bound    1.25 KiB (1,280 bytes), the most that is live at a line
  allocations    2 pieces of memory from an allocator
  in pools       nothing, for there are none
  not counted    1.06 KiB (1,088 bytes) of inputs, constants and kept workspaces

  the 2 largest buffers of 2 live at line 8:
      1 KiB  %y       f32[s0, 4]   lines 8-10
               line 8: %y = extern_kernel aten.add.Tensor(%x, %w) : f32[s0, 4]
  256 bytes  %unused  f32[2 * 32]  lines 7-9
               line 7: %unused = allocate f32[2 * 32]
"""
    )
    assert (
        invoke("memory", "-", input=ADD).stdout.splitlines()[1:]
        == (result.stdout.splitlines()[1:])
    )


def test_sizes_are_taken_as_given(folder: Path) -> None:
    result = invoke("memory", "--size", "s0=16", "add.wir")
    assert "with s0 = 16 (given)" in result.stdout
    assert "peak           512 bytes at line 8" in result.stdout


def test_json_is_shown_as_text(folder: Path) -> None:
    result = invoke("memory", "add.json")
    assert "memory of @main in add.json (as text)" in result.stdout
    assert "line 8: %y = extern_kernel" in result.stdout


def test_passes_are_compared(folder: Path) -> None:
    result = invoke("memory", "--pass", "remove_dead_lines", "add.wir")
    given, after = result.stdout.split("after remove_dead_lines, cpu:")
    after, changes = after.split("what passes did to the memory of values:")
    assert "%unused" in given
    assert "%unused" not in after
    assert changes == "\n  remove_dead_lines:\n    %unused removed, 256 bytes\n"
    assert "peak           1 KiB (1,024 bytes)" in after


def test_what_passes_did_to_the_memory_of_values_is_listed(folder: Path) -> None:
    Path("planned.wir").write_text(MEMORY)
    result = invoke("memory", "--pass", "update_in_place, plan_memory", "planned.wir")
    assert result.stdout.endswith(
        """
what passes did to the memory of values:
  update_in_place:
    %b given the memory of %a, 256 bytes
    %c given the memory of %b, 256 bytes
  plan_memory:
    %pool0 given memory of its own, 256 bytes
    %unused placed in %pool0 at 0, 32 bytes
    %a placed in %pool0 at 0, 256 bytes
"""
    )
    many = "".join(f"  %u{n} = allocate f32[8]\n  free %u{n}\n" for n in range(30))
    Path("many.wir").write_text(MEMORY.replace("  %unused", f"{many}  %unused", 1))
    result = invoke("memory", "--pass", "remove_dead_lines", "many.wir")
    assert result.stdout.endswith("    and 11 more, which `wrapperir view` lists\n")


def test_a_pass_may_mend_a_program_that_has_errors(folder: Path) -> None:
    text = PLANNED.replace("  free %pool\n", "")
    result = invoke("memory", "--pass", "insert_frees", "-", input=text)
    assert result.exit_code == 0
    assert "as given has errors" in result.stderr
    assert "as given, cpu:" not in result.stdout
    assert "after insert_frees, cpu:\n  peak           512 bytes" in result.stdout

    for option in ((), ("--html", "-")):
        unmended = invoke("memory", *option, "-", input=text)
        assert unmended.exit_code == 1
        assert f"<stdin>:4:3: error {Code.LEAK}" in unmended.stderr
    unmended = invoke("memory", "--pass", "insert_frees", "-", input=broken())
    assert (unmended.exit_code, unmended.stdout) == (1, "")
    assert f"(after insert_frees):10:8: error {Code.UNDEFINED_NAME}" in unmended.stderr


def test_pools_are_in_the_summary(folder: Path) -> None:
    result = invoke("memory", "-", input=PLANNED)
    assert "peak           512 bytes at line 5, 2.000 of the lower bound" in result.stdout
    assert "pools          512 bytes at most, in 1 pool" in result.stdout
    assert (
        "in pools       1 of 1 buffers, with 100.0% of their bytes; at the peak 100.0%"
        in result.stdout
    )


def test_a_page_and_a_trace_are_written(folder: Path) -> None:
    result = invoke("memory", "add.wir", "--html", "a.html", "--perfetto", "a.json")
    assert result.exit_code == 0
    page = (folder / "a.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<title>Memory of @main in add.wir</title>" in page
    trace = json.loads((folder / "a.json").read_text())
    assert "%y" in {event["name"] for event in trace["traceEvents"]}
    assert "memory of @main" in result.stdout


def test_without_pools_the_passes_that_plan_are_compared(folder: Path) -> None:
    label = f"after {', '.join(MEMORY_PASSES)}"
    assert label in invoke("memory", "add.wir", "--html", "-").stdout
    assert label not in invoke("memory", "-", "--html", "-", input=PLANNED).stdout


def test_a_page_to_standard_output_is_alone_there(folder: Path) -> None:
    result = invoke("memory", "add.wir", "--html", "-")
    assert result.stdout.startswith("<!doctype html>")
    assert result.stdout.endswith("</html>\n")
    refused = invoke("memory", "add.wir", "--html", "-", "--perfetto", "-")
    assert refused.exit_code == 2


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("s0", "'s0' is not SYMBOL=NUMBER"),
        ("s0=", "'s0=' is not SYMBOL=NUMBER"),
        ("s0=many", "'s0=many' is not SYMBOL=NUMBER"),
        ("=3", "'=3' is not SYMBOL=NUMBER"),
        ("s1=3", "no symbol s1 (it has s0)"),
        ("s0=65", "s0 = 65 is not in its range 1..64"),
    ],
)
def test_sizes_that_cannot_be(folder: Path, size: str, message: str) -> None:
    result = invoke("memory", "--size", size, "add.wir")
    assert result.exit_code == 2
    assert message in result.stderr


def test_faults_have_codes(folder: Path) -> None:
    invalid = invoke("memory", "-", input=broken())
    assert (invalid.exit_code, invalid.stdout) == (1, "")
    assert f"<stdin>:9:8: error {Code.UNDEFINED_NAME}" in invalid.stderr
    malformed = invoke("memory", "-", input="wrapperir 1\nnonsense\n")
    assert malformed.exit_code == 1
    assert "<stdin>:2:1: error WIR0" in malformed.stderr
    unknown = invoke("memory", "--pass", "no_such", "add.wir", "--html", "a.html")
    assert unknown.exit_code == 1
    assert Code.UNKNOWN_PASS in unknown.stderr
    assert not (folder / "a.html").exists()


@pytest.mark.parametrize("option", ["--html", "--perfetto"])
def test_a_file_that_cannot_be_written_is_named(folder: Path, option: str) -> None:
    result = invoke("memory", "add.wir", option, "absent/x")
    assert result.exit_code == 3
    assert result.stderr.startswith("wrapperir: absent/x: ")


def test_it_loads_nothing_heavy() -> None:
    from tests.house.test_imports import HEAVY, loaded_by

    statement = (
        "from click.testing import CliRunner\n"
        "from wrapperir.cli.main import main\n"
        f"done = CliRunner().invoke(main, ['memory', '-'], input={ADD!r})\n"
        "assert done.exit_code == 0, done.output"
    )
    assert not loaded_by(statement).intersection({*HEAVY, "jinja2"})
