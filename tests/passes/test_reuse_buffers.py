from wrapperir import format_program, parse_program
from wrapperir.analysis import analyze_memory
from wrapperir.passes import reuse_buffers
from wrapperir.verify import verify


def after(body: str, head: str = "%x: f32[16]") -> str:
    """Return the lines of the program after the pass, which must be valid."""
    program = parse_program(f"wrapperir 1\n\nprogram @main({head}) {{\n{body}}}\n")
    assert verify(program) == ()
    reused = reuse_buffers(program)
    assert verify(reused) == ()
    for rows in (1, 7, 64):
        symbols = {"s0": rows, "s1": 2 * rows + 1}
        assert analyze_memory(reused, symbols).peak <= analyze_memory(program, symbols).peak
    return format_program(reused).split("{\n", 1)[1][:-2]


def write(name: str, stream: int = 0) -> str:
    """Return a line that writes a buffer."""
    on = f" stream({stream})" if stream else ""
    return f"  extern_kernel aten.fill_.Scalar(%{name}, 1) writes(%{name}){on}\n"


def test_the_buffer_freed_last_of_the_same_size() -> None:
    assert (
        after(f"""\
  %a = allocate f32[16]
{write("a")}\
  %b = allocate f32[16]
{write("b")}\
  free %a
  free %b
  %c = allocate i32[4, 4]
{write("c")}\
  %d = allocate f32[16]
{write("d")}\
  return %c, %d
""")
        == f"""\
  %a = allocate f32[16]
{write("a")}\
  %b = allocate f32[16]
{write("b")}\
  %c = reuse %b as i32[4, 4]
{write("c")}\
  %d = reuse %a as f32[16]
{write("d")}\
  return %c, %d
"""
    )


def test_a_chain_keeps_the_first_size() -> None:
    assert (
        after(f"""\
  %a = allocate f32[64]
{write("a")}\
  free %a
  %b = allocate f32[16]
{write("b")}\
  free %b
  %c = allocate f32[64]
{write("c")}\
  free %c
  return
""")
        == f"""\
  %a = allocate f32[64]
{write("a")}\
  %b = reuse %a as f32[16]
{write("b")}\
  %c = reuse %b as f32[64]
{write("c")}\
  free %c
  return
"""
    )


def test_an_output_takes_only_its_own_size() -> None:
    body = f"""\
  %a = allocate f32[64]
{write("a")}\
  free %a
  %b = allocate f32[16]
{write("b")}\
  return %b
"""
    assert after(body) == body
    assert "%b = reuse %a as f32[2, 32]" in after(body.replace("f32[16]", "f32[2, 32]"))


def test_the_last_name_gives_the_memory() -> None:
    assert (
        after(f"""\
  %a = allocate f32[16]
{write("a")}\
  %view = reinterpret %a as f32[4]
  free %a
  %b = allocate f32[16]
{write("b")}\
  free %view
  %c = allocate f32[16]
{write("c")}\
  return %b, %c
""")
        == f"""\
  %a = allocate f32[16]
{write("a")}\
  %view = reinterpret %a as f32[4]
  free %a
  %b = allocate f32[16]
{write("b")}\
  %c = reuse %view as f32[16]
{write("c")}\
  return %b, %c
"""
    )


def gap(between: str, later: str) -> str:
    return f"""\
  %a = allocate f32[64]
{write("a")}\
  free %a
  %m = allocate f32[{between}]
{write("m")}\
  free %m
  %b = allocate f32[64]
{write("b")}\
  free %b
  %n = allocate f32[{later}]
{write("n")}\
  free %n
  return
"""


def test_memory_is_kept_only_below_the_peak() -> None:
    assert "reuse %a" not in after(gap(between="128", later="128"))
    assert "%b = reuse %a as f32[64]" in after(gap(between="128", later="192"))


def test_symbolic_sizes_of_one_unit() -> None:
    head = "%x: f32[s0, 4]"
    symbols = "  symbol s0: int 0..8 = size(%x, 0)\n\n"
    rows = f"{symbols}{gap(between='s0, 32', later='48 * s0')}".replace(
        "f32[64]", "f32[s0, 16]"
    )
    assert "%b = reuse %a as f32[s0, 16]" in after(rows, head)
    assert "%b = reuse %a" not in after(rows.replace("48 * s0", "32 * s0"), head)


def test_sizes_of_other_units_are_not_compared() -> None:
    body = f"""\
  symbol s0: int 1..8 = size(%x, 0)
  symbol s1: int 1..8 = size(%x, 1)

  %a = allocate f32[s0, 16]
{write("a")}\
  free %a
  %b = allocate f32[s1, 16]
{write("b")}\
  free %b
  %c = allocate f32[16]
{write("c")}\
  return %c
"""
    assert after(body, "%x: f32[s0, s1]") == body


NOT_FOR_REUSE = {
    "the size in whole units is not enough": ("f32[15]", "f32[16]"),
    "pinned": ("f32[16] {pinned}", "f32[16]"),
    "another space": ("f32[16]", "f32[16] {space = comm}"),
    "a greater alignment": ("f32[16] {align = 16}", "f32[16] {align = 64}"),
    "a vendor layout": ("f32[16] {layout = acme.tiled(4)}", "f32[16]"),
    "for a vendor layout": ("f32[16]", "f32[16] {layout = acme.tiled(4)}"),
    "zeroed on each call": ("f32[16]", "f32[16] workspace(zero_on_call)"),
}


def test_what_is_not_for_reuse() -> None:
    for why, (first, second) in NOT_FOR_REUSE.items():
        body = f"""\
  %a = allocate {first}
{write("a")}\
  free %a
  %b = allocate {second}
{write("b")}\
  return %b
"""
        assert after(body) == body, why


def test_the_same_vendor_layout_and_a_smaller_alignment() -> None:
    for first, second in [
        ("f32[16] {layout = acme.tiled(4)}", "f32[16] {layout = acme.tiled(4)}"),
        ("f32[16] {align = 64}", "f32[16] {align = 16}"),
    ]:
        body = f"""\
  %a = allocate {first}
{write("a")}\
  free %a
  %b = allocate {second}
{write("b")}\
  return %b
"""
        assert f"%b = reuse %a as {second}" in after(body)


def test_streams_that_do_not_meet() -> None:
    body = f"""\
  %a = allocate f32[16]
{write("a", 1)}\
  free %a
  %b = allocate f32[16]
{write("b")}\
  %event = record_event stream(1)
  wait_event %event
  return %b
"""
    assert after(body) == body
    lines = body.splitlines(keepends=True)
    met = "".join([*lines[:3], *lines[5:7], *lines[3:5], lines[7]])
    assert "%b = reuse %a" in after(met)


def test_blocks_are_done_inside() -> None:
    assert (
        after(f"""\
  %r = subgraph_call @f (%x) : f32[16] {{
    body (%p: f32[16]) {{
      %a = allocate f32[16]
    {write("a")}\
      free %a
      %b = allocate f32[16]
    {write("b")}\
      return %b
    }}
  }}
  return %r
""")
        == f"""\
  %r = subgraph_call @f (%x) : f32[16] {{
    body (%p: f32[16]) {{
      %a = allocate f32[16]
    {write("a")}\
      %b = reuse %a as f32[16]
    {write("b")}\
      return %b
    }}
  }}
  return %r
"""
    )


def test_buffers_in_pools_and_results_of_operators_stay() -> None:
    body = f"""\
  %pool = allocate_pool pool[64]
  %a = place f32[16] in %pool at 0
{write("a")}\
  free %a
  %b = allocate f32[16]
{write("b")}\
  %c = extern_kernel aten.neg.default(%b) : f32[16]
  free %c
  %d = allocate f32[16]
{write("d")}\
  free %pool
  return %b, %d
"""
    assert after(body) == body


def donating(layout: str, result: str) -> tuple[str, str]:
    """Return lines whose input is freed before a buffer begins, and their inputs."""
    body = f"""\
  %a = extern_kernel aten.sum.default(%x) : f32[]
  free %x
  %b = allocate {result}
{write("b")}\
  return %a, %b
"""
    return body, f"%x: donated {layout}"


def test_a_dense_donated_input_is_reused() -> None:
    for layout in ("f32[8, 8]", "f32[8, 8; stride 1, 8]"):
        assert "%b = reuse %x as f32[64]" in after(*donating(layout, "f32[64]"))


def test_a_donated_input_with_gaps_keeps_its_memory() -> None:
    layout = "f32[8, 8; stride 9, 1]"
    body, head = donating(layout, layout)
    assert after(body, head) == body
