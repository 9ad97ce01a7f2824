"""Inner loops that load what earlier ones stored."""

from wrapperir.ir import Access, Device, DType, Expr, Symbol, tensor
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    BufferView,
    InnerLoop,
    Load,
    LoopGraph,
    Nest,
    Reduce,
    Step,
    Store,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp, operand_count
from wrapperir.lowering.schedule import plan_kernels

_I, _R = Symbol("i"), Symbol("r")
_F32 = DType.F32


def _kernel(op: ScalarOp, stored: DType, device: str, *, keep: bool) -> KernelLaunch:
    """Return the kernel of ``y = f(x) / sum(f(x))``; ``f(x)`` is an output if kept."""
    at: tuple[Expr, ...] = (_I, _R)
    axes = (Axis("r", 256),)

    def computed(name: str) -> list[Step]:
        load = Load(result=f"x{name}", dtype=_F32, buffer="x", index=at)
        operands = (load.result, load.result)[: operand_count(op)]
        return [load, Apply(result=name, dtype=_F32, op=op, operands=operands)]

    first = computed("v")
    first.append(Reduce(results=("s",), dtype=_F32, op=ReduceOp.SUM, operands=("v",)))
    if keep:
        first.append(Store(buffer="f", index=at, value="v"))
    last = computed("w")
    last.append(Apply(result="q", dtype=_F32, op=ScalarOp.DIV, operands=("w", "s")))
    if stored is not _F32:
        last.append(Apply(result="h", dtype=stored, op=ScalarOp.CAST, operands=("q",)))
    last.append(Store(buffer="y", index=at, value="q" if stored is _F32 else "h"))
    loops = [
        InnerLoop(axes=axes, body=tuple(s for s in body if not isinstance(s, InnerLoop)))
        for body in (first, last)
    ]
    on = Device(device)
    size: tuple[Expr, ...] = (64, 256)
    buffers = {
        "x": tensor(_F32, size, device=on),
        "f": tensor(_F32, size, device=on),
        "y": tensor(stored, size, device=on),
    }
    names = ("f", "y") if keep else ("y",)
    nest = Nest(name="k", axes=(Axis("i", 64),), body=tuple(loops))
    graph = LoopGraph(
        buffers=buffers,
        inputs=("x",),
        items=(nest,),
        outputs=tuple((n, BufferView(buffer=n, type=buffers[n])) for n in names),
    )
    (launch,) = plan_kernels(graph).items
    assert isinstance(launch, KernelLaunch)
    return launch


def _accesses(launch: KernelLaunch) -> list[list[str]]:
    """Return the loads and stores of each inner loop."""
    names = dict(zip((b.name for b in launch.kernel.buffers), launch.buffers, strict=True))
    found: list[list[str]] = []
    for step in launch.kernel.nest.body:
        assert isinstance(step, InnerLoop)
        accesses = [each for each in step.body if isinstance(each, Load | Store)]
        found.append(
            [f"{type(each).__name__.lower()} {names[each.buffer]}" for each in accesses]
        )
    return found


def test_a_costly_value_is_kept_in_an_output_that_is_overwritten() -> None:
    launch = _kernel(ScalarOp.EXP, _F32, "cpu", keep=False)
    assert _accesses(launch) == [["load x", "store y"], ["load y", "store y"]]
    assert [buffer.access for buffer in launch.kernel.buffers] == [
        Access.READ,
        Access.WRITE,
    ]


def test_a_cheap_value_is_computed_again() -> None:
    launch = _kernel(ScalarOp.ADD, _F32, "cpu", keep=False)
    assert _accesses(launch) == [["load x"], ["load x", "store y"]]


def test_a_value_that_is_stored_is_loaded() -> None:
    launch = _kernel(ScalarOp.EXP, _F32, "cpu", keep=True)
    assert _accesses(launch) == [["load x", "store f"], ["load f", "store y"]]


def test_a_value_is_not_rounded_to_be_kept() -> None:
    launch = _kernel(ScalarOp.EXP, DType.BF16, "cpu", keep=False)
    assert _accesses(launch) == [["load x"], ["load x", "store y"]]


def test_threads_of_a_gpu_keep_values_themselves() -> None:
    launch = _kernel(ScalarOp.EXP, _F32, "cuda", keep=False)
    assert _accesses(launch) == [["load x"], ["load x", "store y"]]
