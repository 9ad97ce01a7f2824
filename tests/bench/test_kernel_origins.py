"""The sweep's count of kernels and calls without an origin."""

from pathlib import Path

from bench.sweep.kernel_origins import OriginCount, count_dumped

TEXT = """\
wrapperir 1

program @main(%x: f32[8]) {
  %a = extern_kernel aten.neg.default(%x) : f32[8] from(neg)
  %b = extern_kernel aten.exp.default(%a) : f32[8]
  %c = extern_kernel aten.sin.default(%b) : f32[8] from(sin) by(some_pass)
  %d = subgraph_call @f (%c) : f32[8] {
    body (%p: f32[8]) {
      %e = extern_kernel aten.cos.default(%p) : f32[8] by(some_pass)
      return %e
    }
  }
  return %d
}

origins {
  place 0: "model.py" 3
  neg: at 0
  sin:
}
"""


def test_calls_without_origin_or_place_are_counted(tmp_path: Path) -> None:
    for name in ("forward-0", "backward-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "program.wir").write_text(TEXT)
    assert count_dumped(tmp_path) == OriginCount(calls=8, unnamed=4, placeless=2)
