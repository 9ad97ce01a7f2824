"""A strategy for programs with work on several streams and early frees."""

from hypothesis import assume
from hypothesis import strategies as st

from wrapperir.ir import Program
from wrapperir.passes import insert_frees
from wrapperir.testing.generator import BOOLEANS
from wrapperir.testing.pass_check import behaviour
from wrapperir.testing.stream_assignment import assign_streams
from wrapperir.text import parse_program

_SLOTS = 2
"""Places in the pool, which buffers use one after the other."""

_STEPS = {
    "result": "%{0} = extern_kernel aten.mm.default(%{1}, %{1}) : f32[4, 4]",
    "buffer": """%{0} = allocate f32[4, 4]
  extern_kernel aten.neg.out(%{1}, out = %{0}) writes(%{0})""",
    "zeroed": """%{0} = allocate f32[4, 4] workspace(zero_on_call)
  extern_kernel aten.add_.Tensor(%{0}, %{1}) writes(%{0})""",
    "placed": """%{0} = place f32[4, 4] in %pool at {2}
  extern_kernel aten.neg.out(%{1}, out = %{0}) writes(%{0})""",
    "view": "%{0} = reinterpret %{1} as f32[4, 4; stride 1, 4]",
    "alias": "%{0} = extern_kernel aten.contiguous.default(%{1}) aliases(%{1}) : f32[4, 4]",
}


@st.composite
def stream_programs(draw: st.DrawFn) -> Program:
    """Draw a program of 4 × 4 matrices: results, buffers, places in a pool, views.

    Names are freed after their last use.
    """
    lines = [f"%pool = allocate_pool pool[{_SLOTS * 64}]"]
    live: dict[str, frozenset[int]] = {
        "x": frozenset()
    }  # and what each may use of the pool
    for number in range(draw(st.integers(4, 14))):
        name, source = f"v{number}", draw(st.sampled_from(list(live)))
        step = draw(st.sampled_from(list(_STEPS)))
        slot = draw(st.integers(0, _SLOTS - 1))
        own = live[source] if step in ("view", "alias") else frozenset[int]()
        if step == "placed":
            if slot in live[source]:
                continue
            live = {other: slots for other, slots in live.items() if slot not in slots}
            own = frozenset({slot})
        lines.append(_STEPS[step].format(name, source, slot * 64))
        live[name] = own
    last = list(live)[-1]
    lines.append(f"%y = extern_kernel aten.mm.default(%{last}, %{last}) : f32[4, 4]")
    body = "\n  ".join([*lines, "return %y"])
    program = parse_program(
        f"wrapperir 1\n\nprogram @main(%x: f32[4, 4]) {{\n  {body}\n}}\n"
    )
    # The first draw decides whether there are streams at all.
    program = assign_streams(lambda s: s is BOOLEANS or draw(s), insert_frees(program))
    # The verifier sees no write of what may share an argument's memory, but does not.
    assume(not behaviour(program).faults)
    return program
