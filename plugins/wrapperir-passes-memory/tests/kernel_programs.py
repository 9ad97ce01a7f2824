"""A strategy for programs of kernels whose buffers overlap in time."""

from hypothesis import strategies as st

from wrapperir.ir import Program
from wrapperir.passes import insert_frees
from wrapperir.testing.stream_assignment import assign_streams
from wrapperir.text import parse_program

_KERNEL = """\
kernel_definition @mix cpp(x: read f32*, n: i64, y: write f32*, m: i64) {
  entry = mix
  source {
    | extern "C" void mix(const float* x, long n, float* y, long m) {
    |   for (long i = 0; i < m; ++i) y[i] = x[i % n] * 0.5f + i;
    | }
  }
}
"""

_STEPS = {
    "buffer": """%{0} = allocate f32[{2}]
  kernel_call @mix(%{1}, {3}, %{0}, {2})""",
    "zeroed": """%{0} = allocate f32[{2}] workspace(zero_on_call)
  kernel_call @mix(%{1}, {3}, %{0}, {2})""",
    "reuse": """%{0} = reuse %{1} as f32[{2}]
  kernel_call @mix(%x, 64, %{0}, {2})""",
    "view": "%{0} = reinterpret %{1} as f32[{2}]",
    "operator": "%{0} = extern_kernel aten.neg.default(%{1}) : f32[{3}]",
}


@st.composite
def kernel_programs(draw: st.DrawFn) -> Program:
    """Draw a program of kernels that copy vectors, with views, reuses and operators.

    Names are freed after their last use.
    """
    lines: list[str] = []
    live, reusable = {"x": 64}, set[str]()
    for number in range(draw(st.integers(3, 12))):
        name, source = f"v{number}", draw(st.sampled_from(list(live)))
        step = draw(st.sampled_from(list(_STEPS)))
        size, own = draw(st.sampled_from([16, 32, 48, 96, 160])), live[source]
        if step == "reuse":
            if source not in reusable:
                continue
            del live[source]
        if step in ("reuse", "view"):
            size = min(size, own)
        if step in ("buffer", "zeroed", "reuse"):
            reusable.add(name)
        lines.append(_STEPS[step].format(name, source, size, own))
        live[name] = own if step == "operator" else size
    last = list(live)[-1]
    lines.append(f"%y = extern_kernel aten.neg.default(%{last}) : f32[{live[last]}]")
    body = "\n  ".join([*lines, "return %y"])
    text = f"wrapperir 1\n\n{_KERNEL}\nprogram @main(%x: f32[64]) {{\n  {body}\n}}\n"
    return assign_streams(draw, insert_frees(parse_program(text)))
