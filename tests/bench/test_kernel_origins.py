"""The sweep's count of kernels and calls without an origin."""

from pathlib import Path

from bench.results import Record, Variant
from bench.sweep.kernel_origins import OriginCount, count_dumped, describe_origins
from bench.sweep.op_sample import OpTask, run_op
from bench.sweep.ops import format_table

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


def test_counts_of_records_are_summed() -> None:
    records: list[Record] = [
        {"name": "a", "launched": 3, "unnamed": 1, "placeless": 0},
        {"name": "b", "status": "crash"},
        {"name": "c", "launched": 2, "unnamed": 0, "placeless": 2},
    ]
    text = describe_origins(records, "launched")
    assert text.startswith(" Of 5 launches and operator calls of their programs, 1 name no")
    assert "and 2 only nodes without a place" in text
    assert describe_origins(records[1:2], "launched") == ""


def test_the_sweep_of_operators_counts_them(tmp_path: Path) -> None:
    variant = Variant(frontend="lowering")
    record = run_op(OpTask("linalg_inv", tmp_path, variant))
    assert record["status"] == "pass"
    called = str(record["calls"]).split(", ")
    assert called[0] == "aten.linalg_inv_ex.inverse"
    count = len(called)  # PyTorch 2.13 checks its result in a call of its own
    assert (record["launched"], record["unnamed"], record["placeless"]) == (count, 0, 0)
    assert f"Of {count} launches and operator calls" in format_table(
        {"linalg.inv": record}, variant
    )
