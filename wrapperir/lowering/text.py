"""Loop graphs and schedules as text, one line an instruction.

A nest is written as in :mod:`~wrapperir.lowering.loops`, a kernel as a nest with its
parameters.  A remark after ``#`` says which operators a nest is of, or the bytes that an
item reads and writes.  The text is to be read, by people: there is no parser of it.
"""

from collections.abc import Iterable, Mapping

from attrs import define, field, frozen

from wrapperir.diagnostics import LinePath, Position
from wrapperir.ir import DType, Expr, NodeOrigin
from wrapperir.lowering.explain import format_bytes
from wrapperir.lowering.kernel import KernelLaunch, SizeSymbols
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    BufferView,
    Check,
    ExternCall,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    LoopGraph,
    Nest,
    Reduce,
    Scan,
    Store,
    StoreMode,
)
from wrapperir.lowering.renderer import KernelBuffer, LoopKernel
from wrapperir.lowering.schedule import Schedule
from wrapperir.lowering.traffic import Traffic, item_traffic
from wrapperir.text import format_type
from wrapperir.text.expressions import format_expression
from wrapperir.text.literals import format_number, format_string

_INDENT = "    "


@frozen
class LoopText:
    """A text, and the lines of its items, inner loops and instructions by path."""

    text: str
    positions: Mapping[LinePath, Position]


def format_nest(nest: Nest) -> LoopText:
    """Return the text of a nest."""
    writer = _Writer()
    writer.nest(nest, f"nest {nest.name}", (), _operators(nest.origins))
    return writer.finished()


def format_graph(graph: LoopGraph) -> LoopText:
    """Return the text of a graph: its buffers, its items in order, its outputs."""
    writer = _Writer()
    for name, type in graph.buffers.items():
        word = "input" if name in graph.inputs else "buffer"
        writer.add(f"{word} {name} : {format_type(type)}")
    for number, item in enumerate(graph.items):
        path: LinePath = ("items", number)
        writer.add("")
        if isinstance(item, Nest):
            operators = _operators(item.origins)
            writer.nest(item, f"nest {item.name}", path, operators)
        else:
            writer.add(_format_call(item), path)
    writer.outputs(graph.outputs)
    return writer.finished()


def format_schedule(schedule: Schedule, symbols: SizeSymbols) -> LoopText:
    """Return the text of a schedule: its kernels, then its items in order.

    Bytes are those of ``symbols``' typical values.
    """
    writer = _Writer()
    for name, type in schedule.buffers.items():
        writer.add(f"buffer {name} : {format_type(type)}")
    kernels: dict[str, LoopKernel] = {}
    for number, item in enumerate(schedule.items):
        if isinstance(item, KernelLaunch) and item.kernel.name not in kernels:
            kernels[item.kernel.name] = item.kernel
            writer.add("")
            writer.kernel(item.kernel, ("items", number, "kernel"))
    writer.add("")
    total = Traffic(0, 0)
    for number, item in enumerate(schedule.items):
        traffic = item_traffic(item, schedule.buffers, symbols)
        total = Traffic(total.read + traffic.read, total.written + traffic.written)
        if isinstance(item, KernelLaunch):
            text = f"launch {item.kernel.name}({', '.join((*item.buffers, *item.symbols))})"
        else:
            text = _format_call(item)
        writer.add(text, ("items", number), remark=_format_traffic(traffic))
        if isinstance(item, KernelLaunch) and (operators := _operators(item.origins)):
            writer.add(f"# {operators}", depth=1)
    writer.outputs(schedule.outputs)
    calls = sum(isinstance(item, ExternCall) for item in schedule.items)
    launches = len(schedule.items) - calls
    writer.add("")
    writer.add(
        f"# kernels: {len(kernels)}, launches: {launches}, calls: {calls}; "
        f"{_format_traffic(total)}"
    )
    if symbols:
        taken = ", ".join(f"{name} = {known.hint}" for name, known in symbols.items())
        writer.add(f"# bytes are those of {taken}")
    return writer.finished()


def _format_traffic(traffic: Traffic) -> str:
    read, written = map(format_bytes, (traffic.read, traffic.written))
    return f"reads {read}, writes {written}"


@define
class _Writer:
    _lines: list[str] = field(factory=list[str])
    _positions: dict[LinePath, Position] = field(factory=dict[LinePath, Position])

    def add(
        self, text: str, path: LinePath | None = None, depth: int = 0, remark: str = ""
    ) -> None:
        self._lines.append(f"{_INDENT * depth}{text}{f'  # {remark}' if remark else ''}")
        if path is not None:
            place = Position(len(self._lines), 1 + len(_INDENT) * depth, len(text))
            self._positions[path] = place

    def nest(self, nest: Nest, head: str, path: LinePath, remark: str) -> None:
        axes = f", {_format_axes(nest.axes)}" if nest.axes else ""
        self.add(f"{head}{axes}:", path, remark=remark)
        for number, step in enumerate(nest.body):
            at = (*path, "body", number)
            if not isinstance(step, InnerLoop):
                self.add(format_instruction(step), at, 1)
                continue
            self.add(f"for {_format_axes(step.axes)}:", at, 1)
            for place, each in enumerate(step.body):
                self.add(format_instruction(each), (*at, "body", place), 2)

    def kernel(self, kernel: LoopKernel, path: LinePath) -> None:
        fault = () if kernel.fault is None else (kernel.fault,)
        parameters = [
            *(_format_buffer(each) for each in kernel.buffers),
            *(f"{symbol.name}: {symbol.dtype.value}" for symbol in kernel.symbols),
            *(_format_buffer(each) for each in fault),
        ]
        blocks = [f"({', '.join(block)})" for block in kernel.tiling.blocks if block]
        form = [kernel.tiling.reduction.value] * _has_loops(kernel.nest)
        remark = ", ".join((*([f"blocks {' '.join(blocks)}"] * bool(blocks)), *form))
        head = f"kernel {kernel.name}({', '.join(parameters)})"
        self.nest(kernel.nest, head, (*path, "nest"), remark)

    def outputs(self, outputs: Iterable[tuple[str, BufferView]]) -> None:
        self.add("")
        for name, view in outputs:
            self.add(f"output {name} = {_format_view(view)}")

    def finished(self) -> LoopText:
        return LoopText("".join(f"{line}\n" for line in self._lines), self._positions)


def format_instruction(step: Instruction) -> str:
    """Return the line of an instruction."""
    match step:
        case Literal():
            number = _format_number(step.value, step.dtype)
            return f"{step.result} = literal {number} : {step.dtype.value}"
        case IndexValue():
            return f"{step.result} = index {_format_index(step.expr)} : {step.dtype.value}"
        case Load():
            masked = ""
            if step.mask is not None:
                masked = f" if {step.mask} else {_format_number(step.other, step.dtype)}"
            return (
                f"{step.result} = load {_format_access(step)}{masked} : {step.dtype.value}"
            )
        case Apply():
            return (
                f"{step.result} = {step.op.value} {' '.join(step.operands)} : "
                f"{step.dtype.value}"
            )
        case Store():
            mode = "" if step.mode is StoreMode.OVERWRITE else f"{step.mode.value} "
            return f"store {mode}{_format_access(step)} = {step.value}{_format_mask(step)}"
        case Reduce() | Scan():
            word = "reduce" if isinstance(step, Reduce) else "scan"
            return (
                f"{', '.join(step.results)} = {word} {step.op.value} "
                f"{' '.join(step.operands)} : {step.dtype.value}"
            )
        case Check():
            message = f" {format_string(step.message)}" if step.message else ""
            return f"check {step.condition}{message}{_format_mask(step)}"


def _format_number(value: int | float | bool, dtype: DType) -> str:
    return format_number(float(value) if dtype.is_float else value)


def _format_mask(step: Store | Check) -> str:
    return "" if step.mask is None else f" if {step.mask}"


def _format_access(step: Load | Store) -> str:
    return f"{step.buffer}[{', '.join(map(_format_index, step.index))}]"


def _format_index(expr: Expr) -> str:
    return format_expression(expr, str)


def _format_axes(axes: Iterable[Axis]) -> str:
    return ", ".join(f"{axis.name} < {_format_index(axis.extent)}" for axis in axes)


def _format_buffer(buffer: KernelBuffer) -> str:
    return f"{buffer.name}: {buffer.access.value} {format_type(buffer.type)}"


def _has_loops(nest: Nest) -> bool:
    return any(isinstance(step, InnerLoop) for step in nest.body)


def _format_view(view: BufferView) -> str:
    return f"{view.buffer} : {format_type(view.type)}"


def _format_call(call: ExternCall) -> str:
    given = ", ".join(f"{name} = {_format_view(view)}" for name, view in call.arguments)
    return f"call {call.name}({given}) -> {', '.join(call.writes) or 'nothing'}"


def _operators(origins: Iterable[NodeOrigin]) -> str:
    """Return the operators that an item computes, each once."""
    names = dict.fromkeys(each.operator for each in origins if each.operator)
    return ", ".join(filter(None, names))
