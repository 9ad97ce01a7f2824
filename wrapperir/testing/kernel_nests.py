"""The kernels of the conformance kit as loop nests, which renderers write in any language.

They compute bit for bit what the kernels in C++ of :mod:`wrapperir.testing.kernels` and
:mod:`wrapperir.testing.cell_kernels` do.
"""

from collections.abc import Mapping

from attrs import evolve, frozen

from wrapperir import ir as wir
from wrapperir.ir import DType, Expr, Symbol
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    IndexValue,
    InnerLoop,
    Literal,
    Load,
    Nest,
    Reduce,
    Step,
    Store,
)
from wrapperir.lowering.renderer import KernelBuffer, LoopKernel, Renderer, Tiling
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp

_F32 = DType.F32
_I0, _COUNT = Symbol("i0"), Symbol("xnumel")
_LAST = _COUNT - 1 - _I0


def _load(result: str, buffer: str, index: Expr = _I0) -> Load:
    return Load(result=result, dtype=_F32, buffer=buffer, index=(index,))


def _apply(result: str, op: ScalarOp, *operands: str, dtype: DType = _F32) -> Apply:
    return Apply(result=result, dtype=dtype, op=op, operands=operands)


def _store(buffer: str, value: str, index: Expr = _I0) -> Store:
    return Store(buffer=buffer, index=(index,), value=value)


def _of_two(op: ScalarOp, index: Expr = _I0) -> tuple[Step, ...]:
    return (
        _load("v0", "in_ptr0", index),
        _load("v1", "in_ptr1", index),
        _apply("v2", op, "v0", "v1"),
        _store("out_ptr0", "v2", index),
    )


def _of_cell(op: ScalarOp, number: str, dtype: DType) -> tuple[Step, ...]:
    return (
        Load(result="v0", dtype=DType.I64, buffer="in_ptr0", index=(0,)),
        IndexValue(result="v1", dtype=DType.I64, expr=Symbol(number)),
        _apply("v2", op, "v0", "v1", dtype=dtype),
        _store("out_ptr0", "v2", 0),
    )


def _numbers(*names: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    for index, name in enumerate(names):
        value = f"v{index}"
        steps.append(IndexValue(result=value, dtype=DType.F64, expr=Symbol(name)))
        steps.append(_store("out", value, index))
    return tuple(steps)


@frozen
class _Loops:
    """The body of a nest, its parallel axes, and sizes of buffers other than ``xnumel``."""

    body: tuple[Step, ...]
    axes: tuple[Axis, ...] = (Axis("i0", _COUNT),)
    sizes: Mapping[str, Expr] = {}


_CELLS: Mapping[str, Expr] = {"in_ptr0": 1, "out_ptr0": 1}

_ROW, _LENGTH = Symbol("r0"), Symbol("rnumel")

_LOOPS: Mapping[str, _Loops] = {
    "add": _Loops(_of_two(ScalarOp.ADD)),
    "add_reversed": _Loops(_of_two(ScalarOp.ADD, _LAST)),
    "subtract": _Loops(_of_two(ScalarOp.SUB)),
    "negate": _Loops(
        (
            _load("v0", "in_ptr0"),
            _apply("v1", ScalarOp.NEG, "v0"),
            _store("out_ptr0", "v1"),
        )
    ),
    "relu_inplace": _Loops(
        (
            _load("v0", "in_out_ptr0"),
            Literal(result="v1", dtype=_F32, value=0.0),
            _apply("v2", ScalarOp.GT, "v0", "v1", dtype=DType.BOOL),
            _apply("v3", ScalarOp.WHERE, "v2", "v0", "v1"),
            _store("in_out_ptr0", "v3"),
        )
    ),
    "row_sum": _Loops(
        (
            InnerLoop(
                axes=(Axis("r0", _LENGTH),),
                body=(
                    _load("v0", "in_ptr0", _I0 * _LENGTH + _ROW),
                    Reduce(results=("v1",), dtype=_F32, op=ReduceOp.SUM, operands=("v0",)),
                ),
            ),
            _store("out_ptr0", "v1"),
        ),
        sizes={"in_ptr0": _COUNT * _LENGTH},
    ),
    "scratch_write": _Loops(
        (
            _load("v0", "in_ptr0"),
            _store("ws_ptr", "v0"),
            _load("v1", "ws_ptr"),
            _store("out_ptr0", "v1"),
        )
    ),
    "scratch_add": _Loops(
        (
            _load("v0", "in_ptr0"),
            _load("v1", "ws_ptr"),
            _apply("v2", ScalarOp.ADD, "v0", "v1"),
            _store("out_ptr0", "v2"),
            Literal(result="v3", dtype=_F32, value=0.0),
            _store("ws_ptr", "v3"),
        )
    ),
    "count": _Loops(_of_cell(ScalarOp.ADD, "step", DType.I64), (), _CELLS),
    "below": _Loops(_of_cell(ScalarOp.LT, "limit", DType.BOOL), (), _CELLS),
    "numbers": _Loops(_numbers("a", "b", "c", "d", "e"), (), {"out": 5}),
}
"""The loops of each kernel, by its entry."""


def loop_kernel(kernel: wir.KernelDefinitionLine, device: wir.Device) -> LoopKernel | None:
    """Return a C++ kernel of the kit as loops on a device, ``None`` for other kernels."""
    loops = _LOOPS.get(kernel.entry)
    if loops is None:
        return None
    buffers = [
        KernelBuffer(
            name=each.name,
            type=evolve(
                wir.tensor(each.dtype, (loops.sizes.get(each.name, _COUNT),)), device=device
            ),
            access=each.access,
        )
        for each in kernel.parameters
        if isinstance(each, wir.BufferParameter)
    ]
    symbols = [x for x in kernel.parameters if isinstance(x, wir.ScalarParameter)]
    return LoopKernel(
        name=kernel.name,
        buffers=tuple(buffers),
        symbols=tuple(symbols),
        nest=Nest(name=kernel.name, axes=loops.axes, body=loops.body),
        tiling=Tiling(blocks=tuple((axis.name,) for axis in loops.axes)),
    )


def rendered_kernel(
    kernel: wir.KernelDefinitionLine, renderer: Renderer, device: wir.Device
) -> wir.KernelDefinitionLine | None:
    """Return a C++ kernel of the kit as a renderer writes it, ``None`` if it does not."""
    loops = loop_kernel(kernel, device)
    if loops is None or renderer.refusal(loops.nest) is not None:
        return None
    return renderer.render_kernel(loops)
