"""Programs of graphs that were lowered here: kernels, their calls, operator calls."""

from collections.abc import Iterable
from typing import Any

import torch
from attrs import define, evolve, field
from torch._library.utils import is_builtin
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from wrapperir import ir as wir
from wrapperir.diagnostics import DiagnosticError
from wrapperir.frontend.aten.arguments import append_view, assert_layout, result_subject
from wrapperir.frontend.aten.graph import lower_nodes
from wrapperir.frontend.aten.scope import Elements, GraphScope, Poison
from wrapperir.frontend.lowering.graph import LoweredGraph
from wrapperir.frontend.lowering.padding import is_padded, is_product
from wrapperir.lowering.copies import launch_copies
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import BufferView, ExternCall
from wrapperir.lowering.renderer import KernelSequence, LoopKernel, Renderer
from wrapperir.lowering.schedule import Schedule, SchedulingOptions
from wrapperir.lowering.sequences import SequenceLaunch, join_launches
from wrapperir.lowering.traffic import touched_elements
from wrapperir.operators import find_out_overload
from wrapperir.passes.use_out_variants import out_call
from wrapperir.plugin import plugin_manager


@define(eq=False)
class ScheduleLines:
    """Appends the lines of a schedule to a scope that has the inputs.

    ``names`` has the value in the program for each buffer that exists so far, ``joined``
    each launch that is several of the schedule's.
    """

    scope: GraphScope
    lowered: LoweredGraph
    schedule: Schedule
    options: SchedulingOptions
    names: dict[str, str] = field(factory=dict[str, str])
    definitions: dict[str, wir.KernelDefinitionLine] = field(
        factory=dict[str, wir.KernelDefinitionLine], init=False
    )
    joined: list[SequenceLaunch] = field(factory=list[SequenceLaunch], init=False)
    _views: dict[BufferView, str] = field(factory=dict[BufferView, str], init=False)

    def append_items(self) -> None:
        """Append the lines of all items, in order.

        Raises:
            DiagnosticError: an operator call cannot be expressed.
        """
        items = join_launches(self.schedule, self.names, _renderer_of, self.options)
        for item in items:
            if isinstance(item, ExternCall):
                self._call(item)
            else:
                self._launch(item)
            if isinstance(item, SequenceLaunch):
                self.joined.append(item)

    def view(self, view: BufferView, node: torch.fx.Node) -> str:
        """Return the name of a view of a buffer, which is the value of a node."""
        source = self.names[view.buffer]
        type = self._resolved(view.type)
        if type == self.scope.types[source]:
            return source
        found = self._views.get(view)
        if found is None:
            views = self.lowered.views.get(node, ())
            origins = self.scope.shared.origins.named(views) if views else None
            found = append_view(self.scope, node.name, source, type, origins)
            self._views[view] = found
        return found

    def _resolved(self, type: wir.TensorType) -> wir.TensorType:
        """Return a type with the names that symbols have in the program."""
        resolve = self.scope.resolve
        return evolve(
            type,
            size=tuple(map(resolve, type.size)),
            stride=tuple(map(resolve, type.stride)),
            offset=resolve(type.offset),
        )

    def _define(self, launch: KernelLaunch | SequenceLaunch) -> None:
        kernel = launch.kernel
        if kernel.name in self.definitions:
            return
        if isinstance(kernel, KernelSequence):
            definition = _renderer_of(kernel.parts[0].kernel).render_sequence(kernel)
        else:
            definition = _renderer_of(kernel).render_kernel(kernel)
        facts = [entry for copy in launch_copies(launch) for entry in copy.metadata]
        touched = touched_elements(kernel)
        if touched is not None:
            facts += touched.metadata
        self.definitions[kernel.name] = evolve(
            definition, metadata=(*definition.metadata, *facts)
        )

    def _launch(self, launch: KernelLaunch | SequenceLaunch) -> None:
        kernel = launch.kernel
        self._define(launch)
        for result, source in launch.in_place:
            self._reuse(result, source, self._made_by(launch, result))
        device = wir.CPU
        for parameter, buffer in zip(kernel.buffers, launch.buffers, strict=True):
            device = parameter.type.device
            if buffer in self.names:
                if parameter.access.writes:
                    self.scope.write(self.names[buffer])
                continue
            self._allocate(buffer, self._made_by(launch, buffer))
        arguments: list[wir.KernelArgument] = [
            wir.BufferRef(self.names[buffer]) for buffer in launch.buffers
        ]
        arguments += [self.scope.resolve(wir.Symbol(name)) for name in launch.symbols]
        fault = None
        checked = [origin for origins in launch.checked for origin in origins]
        checking = self._provenance(dict.fromkeys(checked))
        if kernel.fault is not None:
            fault = self._new_buffer(
                "fault", kernel.fault.type, checking, wir.ZeroMode.ZERO_ON_CALL
            )
            arguments.append(wir.BufferRef(fault))
        self.scope.lines.append(
            wir.KernelCallLine(
                kernel=kernel.name,
                arguments=tuple(arguments),
                device=device,
                provenance=self._provenance(launch.origins),
            )
        )
        if fault is not None:
            self._assert_no_fault(fault, launch, checking)

    def _made_by(
        self, launch: KernelLaunch | SequenceLaunch, buffer: str
    ) -> wir.Provenance:
        """Return the provenance of what a kernel writes, first the node that it is."""
        origins = launch.origins_of(buffer)
        return self._provenance((*origins[-1:], *origins[:-1]))

    def _provenance(self, origins: Iterable[wir.NodeOrigin]) -> wir.Provenance:
        """Return the provenance of a kernel, with the views that it reads through."""
        names = [origin.name for origin in origins]
        for name in names.copy():
            names += self.lowered.read_views.get(name, ())
        return self.scope.shared.origins.named(names)

    def _reuse(self, buffer: str, source: str, provenance: wir.Provenance) -> None:
        """Append the line that gives a buffer the memory of another."""
        type = self._resolved(self.schedule.buffers[buffer])
        result = self.names[buffer] = self.scope.new_name(buffer)
        self.scope.declare_root(result, type)
        self.scope.laid_out.add(result)
        line = wir.ReuseLine(
            result=result, source=self.names.pop(source), type=type, provenance=provenance
        )
        self.scope.lines.append(line)

    def _allocate(self, buffer: str, provenance: wir.Provenance) -> None:
        type = self._resolved(self.schedule.buffers[buffer])
        self.names[buffer] = self._new_buffer(buffer, type, provenance, None)

    def _new_buffer(
        self,
        name: str,
        type: wir.TensorType,
        provenance: wir.Provenance,
        mode: wir.ZeroMode | None,
    ) -> str:
        result = self.scope.new_name(name)
        self.scope.declare_root(result, type)
        self.scope.laid_out.add(result)
        self.scope.lines.append(
            wir.AllocateLine(
                result=result, type=type, workspace=mode, provenance=provenance
            )
        )
        return result

    def _assert_no_fault(
        self,
        fault: str,
        launch: KernelLaunch | SequenceLaunch,
        provenance: wir.Provenance,
    ) -> None:
        """Append lines that raise the error of the check that failed."""
        symbol = self.scope.new_name(f"{fault}_code")
        self.scope.lines.append(
            wir.SymbolDefinitionLine(
                symbol=symbol, source=wir.ItemOf(fault), provenance=provenance
            )
        )
        checks = zip(launch.messages, launch.checked, strict=True)
        for number, (message, origins) in enumerate(checks, start=1):
            self.scope.lines.append(
                wir.AssertScalarLine(
                    condition=wir.compare(wir.ExprOp.NE, wir.Symbol(symbol), number),
                    message=message,
                    provenance=self._provenance(origins),
                )
            )

    def _call(self, call: ExternCall) -> None:
        node = self.lowered.called[call.name]
        given = iter(call.arguments)
        scope = self.scope
        for source in node.all_input_nodes:
            leaves, spec = pytree.tree_flatten(source.meta.get("val"))
            if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
                self.number(source)
                continue
            values: list[Any] = []
            for leaf in leaves:
                if isinstance(leaf, torch.Tensor):
                    _, view = next(given)
                    values.append(wir.BufferRef(self.view(view, source)))
                else:
                    values.append(None if leaf is None else scope.lower_scalar(leaf))
            value: Any = pytree.tree_unflatten(values, spec)
            scope.values[source] = tuple(value) if isinstance(value, list) else value
        reported, before = len(scope.shared.diagnostics), len(scope.lines)
        lower_nodes(scope, [node])
        if len(scope.shared.diagnostics) > reported:
            raise DiagnosticError(*scope.shared.diagnostics[reported:])
        if is_product(node) and is_padded(node.meta["val"]):
            self._allocate_result()
        checked = _is_custom(node.target) and any(
            isinstance(line, wir.ExternKernelLine) for line in scope.lines[before:]
        )
        results = iter(call.writes)
        value = scope.values.get(node)
        examples: Any = node.meta.get("val")
        if isinstance(value, Elements | tuple):
            for number, example in enumerate(examples):
                if isinstance(example, torch.Tensor):
                    self._name_result(next(results), value[number])
        elif isinstance(examples, torch.Tensor):
            self._name_result(next(results), value)
        if checked:
            for buffer in call.writes:
                self._check_layout(self.names[buffer], node)

    def _check_layout(self, name: str, node: torch.fx.Node) -> None:
        """Check what a custom operator returned."""
        subject = result_subject(str(node.target))
        assert_layout(self.scope, name, subject, self.scope.provenance(node))

    def _allocate_result(self) -> None:
        """Have the last call write to memory in the layout of its result."""
        line = self.scope.lines.pop()
        assert isinstance(line, wir.ExternKernelLine)
        assert line.result is not None
        assert isinstance(line.type, wir.TensorType)
        overload = find_out_overload(line.operator, line.device.kind)
        assert overload is not None
        allocation = wir.AllocateLine(
            result=line.result, type=line.type, provenance=line.provenance
        )
        self.scope.lines += [allocation, out_call(line, overload, [line.result])]

    def number(self, node: torch.fx.Node) -> wir.Argument:
        """Return the value of a node that is a number, or nothing."""
        if node not in self.scope.values:
            example = node.meta.get("val")
            number = None if example is None else self.scope.lower_scalar(example)
            self.scope.values[node] = number
        value = self.scope.values[node]
        assert not isinstance(value, Elements | Poison)
        return value

    def _name_result(self, buffer: str, value: Any) -> None:
        assert isinstance(value, wir.BufferRef)
        self.names[buffer] = value.name


def _is_custom(operator: object) -> bool:
    """Say whether an operator is not one of PyTorch's."""
    return isinstance(operator, OpOverload) and not is_builtin(operator)


def _renderer_of(kernel: LoopKernel) -> Renderer:
    (kind,) = {buffer.type.device.kind for buffer in kernel.buffers}
    renderer = plugin_manager().renderer(kernel.nest, kind)
    assert renderer is not None  # or the operator would be called
    return renderer


def output_values(
    builder: ScheduleLines, results: Iterable[Any]
) -> tuple[wir.Argument, ...]:
    """Return the outputs of a program for the arguments of a graph's output node."""
    outputs: dict[str, BufferView] = dict(builder.schedule.outputs)
    values: list[wir.Argument] = []
    for result in results:
        if not isinstance(result, torch.fx.Node):
            values.append(None if result is None else builder.scope.lower_scalar(result))
        elif result.name in outputs:
            values.append(wir.BufferRef(builder.view(outputs[result.name], result)))
        else:
            values.append(builder.number(result))
    return tuple(values)
