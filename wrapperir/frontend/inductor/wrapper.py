"""Inductor's wrapper code generator, with text replaced by structured lines.

Inductor schedules and plans as always and leaves its lines in ``lines``.  Where it would
write text instead, a record of the node is appended.  Text without a record is refused: it
is neither pasted nor dropped.
"""

import re
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch._inductor import config, ir
from torch._inductor.codegen import wrapper as inductor
from torch._inductor.codegen.common import WorkspaceArg, WorkspaceZeroMode
from torch._inductor.utils import LineContext, sympy_product
from torch._inductor.virtualized import V
from torch.utils._pytree import tree_leaves

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.inductor import versions
from wrapperir.frontend.inductor.block_lines import lower_branch, lower_invoke, lower_loop
from wrapperir.frontend.inductor.extern_lines import lower_node
from wrapperir.frontend.inductor.kernel_lines import define_early
from wrapperir.frontend.inductor.lines import RecordLine
from wrapperir.frontend.inductor.mixed_reductions import lower_last_step, parse_last_step
from wrapperir.frontend.inductor.object_methods import calls_method
from wrapperir.frontend.inductor.symbol_lines import (
    lower_alignment,
    lower_not_nan,
    lower_size_stride,
    lower_symbol,
)
from wrapperir.frontend.inductor.triton_grid import template_meta
from wrapperir.frontend.inductor.values import described
from wrapperir.ir import Expr, ExprOp, Operation, compare, floordiv, maximum, minimum
from wrapperir.symbolic import lower_size

if TYPE_CHECKING:
    from wrapperir.frontend.inductor.session import Session

# Their own codegen writes text that says no more than the node does.
_NODES_OF_TEXT = (
    ir.AssertScalar,
    ir.InplaceBernoulliFallback,
    ir.MutatingFirstArgExternKernel,
)
_NAN_CHECK = re.compile(r"assert not \w+\.is(nan|inf)\(\)\.any\(\)\.item\(\)")


def _write_nothing(*args: Any, **kwargs: Any) -> None:
    """Write nothing."""


_NOTHING: Any = _write_nothing


class CaptureWrapper(inductor.PythonWrapperCodegen):
    """Collects the lines of one graph; :class:`CaptureFactory` makes it."""

    supports_caching = False

    def __init__(self, session: "Session", *args: Any) -> None:
        """Keep the session; the other arguments are a subgraph's."""
        self.session = session
        self.alignment_asserts = session.alignment_asserts
        stock: Any = super()
        stock.__init__(*args)
        self.multi_kernel_state = session.multi_kernels
        self.scheduled: list[Any] = []  # what the kernel computes that is called next

    # Text of the Python module that Inductor would write: none is needed.
    write_header = _NOTHING
    write_constant = _NOTHING
    write_kernel_autotune_defs_header = _NOTHING
    write_triton_header_once = _NOTHING
    write_get_raw_stream_header = _NOTHING
    write_get_raw_stream_header_once = _NOTHING
    # These remarks repeat what a line's provenance says.
    make_comment = _NOTHING
    # The handle indexes a table of Inductor's.
    write_provenance_debug_handle = _NOTHING
    # The code that calls the program copies misaligned inputs.
    register_alignment_check_inputs = _NOTHING
    codegen_deferred_alignment_copies = _NOTHING
    # Copies to pinned memory are made blocking instead.
    sync_d2h_copy = _NOTHING
    # The session has the block.
    define_subgraph_launcher_fn = _NOTHING

    def write_prefix(self) -> None:
        """Queue the checks of the inputs; write nothing."""
        self.codegen_input_size_and_nan_asserts()

    # Text that records replace.

    def writeline(self, line: Any) -> None:
        """Append a line; for text, append a record of the current node.

        Raises:
            DiagnosticError: WIR650, there is no record for the text.
        """
        if isinstance(line, inductor.WrapperLine | LineContext):
            lines: list[Any] = self.lines
            lines.append(line)
            return
        if config.nan_asserts and _NAN_CHECK.fullmatch(line):
            return  # the finished program is given checks of every kernel call
        node = _current_node()
        if versions.is_size_check(line, node):
            self._record_size(node.get_name(), node, node.get_op_name())
            return
        last_step = parse_last_step(line)
        if last_step is not None:
            self._record(lower_last_step, *last_step)
            return
        if not isinstance(node, _NODES_OF_TEXT):
            raise _text_refused(line, node)
        self._record_node(node)

    def _record(self, lower: Callable[..., None], *arguments: Any) -> None:
        self.writeline(RecordLine(lower, arguments))

    def _record_node(self, node: Any) -> None:
        last = self.lines[-1] if self.lines else None
        if not (isinstance(last, RecordLine) and last.arguments == (node,)):
            self._record(lower_node, node)

    def codegen_input_size_asserts(self) -> None:
        """Queue a check of each tensor input, to come before its first use."""
        for name, value in self.get_graph_inputs().items():
            if isinstance(value, ir.TensorBox) and sympy_product(value.get_size()) != 0:
                if not versions.DEFERS_INPUT_CHECKS:
                    self._record_size(name, value, "input")
                    continue
                shape: Any = (value.get_size(), value.get_stride())
                self._pending_input_asserts[name] = shape

    def codegen_input_nan_asserts(self) -> None:
        """Check each tensor input for NaN and infinity."""
        for name, value in self.get_graph_inputs().items():
            if isinstance(value, ir.TensorBox):
                self._record(lower_not_nan, name)

    def write_assert_size_stride(
        self, name: str, size: Any, stride: Any, op_name: str
    ) -> None:
        """Record a check; for an operator, with the layout of its buffer, not text."""
        if isinstance(size, str):
            self._record_size(name, V.graph.get_buffer(name), op_name)
        else:
            self._record(lower_size_stride, name, size, stride, op_name)

    def _record_size(self, name: str, node: Any, op_name: str) -> None:
        size, stride = node.get_size(), node.get_stride()
        self._record(lower_size_stride, name, size, stride, op_name)

    def generate_fallback_kernel(self, node: ir.FallbackKernel) -> None:
        """Record an operator call; custom text for an operator is not used."""
        self.writeline(inductor.ExternKernelAllocLine(self, node))
        if calls_method(node):  # the object may still have what a method returns
            outputs = (x for x in tree_leaves(node.outputs) if isinstance(x, ir.Buffer))
            V.graph.never_reuse_buffers.update(x.get_name() for x in outputs)
        if isinstance(node.layout, ir.Layout):
            self._record_alignment(node)

    def codegen_multi_output(self, node: ir.MultiOutput) -> None:
        """Record one result of an operator."""
        self.writeline(
            inductor.MultiOutputLine(
                self, node.get_name(), node.input_name(0), node.indices
            )
        )
        if not node.skip_size_stride_alignment_checks:
            self._record_alignment(node)

    def _record_alignment(self, node: Any) -> None:
        name = node.get_name()
        if self.alignment_asserts and name not in V.graph.unaligned_buffers:
            self._record(lower_alignment, name, node.get_op_name())

    def codegen_device_copy(self, src: str, dst: str, non_blocking: bool | str) -> None:
        """Record the copy by its node."""
        node = _current_node()
        if not isinstance(node, ir.InplaceCopyFallback | ir.DeviceCopy):
            raise _text_refused(f"{dst}.copy_({src})", node)
        self._record_node(node)

    def codegen_dynamic_select_index(self, node: Any, clamp: bool) -> None:
        """Record the offset of a select with an unbacked index."""
        index, size = lower_size(node.index), lower_size(node.size)
        position = _where(compare(ExprOp.LT, index, 0), index + size, index)
        if clamp:
            position = maximum(0, minimum(size, position))
        offset = lower_size(node.base_offset) + lower_size(node.base_dim_stride) * position
        self._record(lower_symbol, node.unbacked_offset_symbol, offset)
        self.unbacked_symbol_decls.add(str(node.unbacked_offset_symbol))

    def codegen_dynamic_slice_size(self, node: Any) -> None:
        """Record the size of a slice with unbacked bounds."""
        size, step = lower_size(node.size), lower_size(node.step)

        def clamped(value: Any) -> Expr:
            bound = lower_size(value)
            positive = maximum(0, minimum(bound, size))
            negative = maximum(0, minimum(bound + size, size))
            return _where(compare(ExprOp.GE, bound, 0), positive, negative)

        extent = clamped(node.end) - clamped(node.start)
        if step != 1:
            extent = floordiv(extent + step - 1, step)
        self._record(lower_symbol, node.unbacked_size_symbol, maximum(0, extent))
        self.unbacked_symbol_decls.add(str(node.unbacked_size_symbol))

    def generate_workspace_allocation(self, ws: WorkspaceArg) -> None:
        """Record a workspace; how it is zeroed is a fact of the allocation."""
        if ws.zero_mode is not WorkspaceZeroMode.ZERO_PER_GRAPH:
            self.writeline(inductor.AllocateLine(self, ws))
            return
        prior = self.allocated_workspaces.get(ws.get_name())
        if prior is None:
            self.allocated_workspaces[ws.get_name()] = line = inductor.AllocateLine(
                self, ws
            )
            self.writeline(line)
        else:
            prior.node = WorkspaceArg.maximum(prior.node, ws)

    def generate_tma_descriptor(self, desc: Any) -> None:
        """Record nothing: a kernel's parameter says that it takes a descriptor.

        Raises:
            DiagnosticError: WIR651, it belongs to the API before ``TensorDescriptor``.
        """
        if not isinstance(desc, ir.TMADescriptorStable):
            message = (
                f"TMA descriptor {desc.get_name()} is not a TensorDescriptor of Triton"
            )
            raise Code.INDUCTOR_LINE.error(
                message, hint="make it by triton.tools.tensor_descriptor.TensorDescriptor"
            )

    def define_user_defined_triton_kernel(self, *args: Any, **kwargs: Any) -> Any:
        """Define a kernel of the user's, and note the parameters that it writes."""
        defined = super().define_user_defined_triton_kernel(*args, **kwargs)
        _, _, given, *_ = args
        epilogue = args[6] if len(args) > 6 else None
        outputs = _current_node().mutable_args if epilogue is None else epilogue[:1]
        written = {buffer.get_name() for buffer in outputs}
        self.session.user_kernels[defined[0]] = frozenset(
            parameter
            for parameter, value in given.items()
            if isinstance(value, ir.IRNode) and described(value).get_name() in written
        )
        return defined

    def define_kernel(
        self, kernel_name: str, kernel_body: str, *args: Any, **kwargs: Any
    ) -> None:
        """Record a definition, and its text for the first call."""
        super().define_kernel(kernel_name, kernel_body, *args, **kwargs)
        self.session.bodies[kernel_name] = kernel_body

    def generate_kernel_call(self, kernel_name: str, call_args: Any, **kwargs: Any) -> None:
        """Record a call; for a kernel of the user's, with its arguments as nodes."""
        raw = kwargs.get("raw_args")
        if raw is not None and kernel_name in self.session.user_kernels:
            call_args = [
                node if isinstance(node, ir.IRNode) else value
                for value, node in zip(call_args, raw, strict=True)
            ]
        elif kwargs.get("triton_meta") is not None:
            meta = kwargs.get("inductor_meta") or {}
            if meta.get("grid_type") in (None, "FixedGrid"):
                signature = kwargs["triton_meta"]["signature"]
                kwargs["inductor_meta"] = template_meta(kernel_name, call_args, signature)
        scheduled, self.scheduled = self.scheduled or [_current_node()], []
        super().generate_kernel_call(kernel_name, call_args, **kwargs)
        line: Any = self.lines[-1]
        self.session.computed[id(line)] = scheduled
        define_early(self.session, line)

    # Nested blocks.

    def codegen_conditional(self, conditional: ir.Conditional) -> None:
        """Generate both blocks, then record the line that owns them."""
        self.codegen_subgraph_common(conditional.true_subgraph)
        self.codegen_subgraph_common(conditional.false_subgraph)
        self._record(lower_branch, conditional)

    def codegen_while_loop(self, while_loop: ir.WhileLoop, stack_output: bool) -> None:
        """Generate both blocks, then record the line that owns them."""
        self.codegen_subgraph_common(while_loop.cond_subgraph)
        self.codegen_subgraph_common(while_loop.body_subgraph)
        self._record(lower_loop, while_loop, stack_output)

    def codegen_invoke_subgraph(self, invoke_subgraph: ir.InvokeSubgraph) -> None:
        """Generate the block, unless an earlier call did, then record the call."""
        self.codegen_subgraph_common(invoke_subgraph.subgraph)
        self._record(lower_invoke, invoke_subgraph)

    def codegen_subgraph_with_flattened_outputs(
        self, subgraph: Any, outer_inputs: Any, outer_flattened_outputs: Any
    ) -> None:
        """Generate the block of an autotuned choice, then record the call."""
        self.codegen_subgraph_common(subgraph)
        self._record(lower_invoke, _current_node())

    def codegen_subgraph_common(self, subgraph: Any) -> None:
        """Generate a subgraph once; its block is kept by the session."""
        graph = subgraph.graph
        if graph.name not in self.session.subgraphs:
            with V.set_graph_handler(graph):
                graph.codegen()

    def _generate(self, is_inference: bool) -> Any:
        self.run_wrapper_ir_passes(is_inference)
        if isinstance(self, inductor.SubgraphPythonWrapperCodegen):
            self.session.subgraphs[str(V.graph.name)] = self.lines, V.graph
            return None, None
        return self.session.finish(self), None


class SubgraphCaptureWrapper(CaptureWrapper, inductor.SubgraphPythonWrapperCodegen):
    """Collects the lines of a nested block."""


class CaptureFactory:
    """Wrapper factory that is registered for a device during one session.

    Other threads that compile meanwhile get the class that was registered before.
    """

    def __init__(self, session: "Session", stock: Any, thread: int) -> None:
        """Remember the session, the class it replaces and the thread it serves."""
        self.supports_caching = session.is_kept
        self._session = session
        self._stock = stock
        self._thread = thread

    def create(
        self,
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: inductor.PythonWrapperCodegen | None,
        partition_signatures: Any = None,
    ) -> inductor.PythonWrapperCodegen:
        """Return the wrapper of a graph or subgraph."""
        if threading.get_ident() != self._thread:
            stock: inductor.PythonWrapperCodegen = self._stock.create(
                is_subgraph, subgraph_name, parent_wrapper, partition_signatures
            )
            return stock
        if not is_subgraph:
            return CaptureWrapper(self._session)
        return SubgraphCaptureWrapper(
            self._session, subgraph_name, parent_wrapper, partition_signatures
        )


def _where(condition: Expr, yes: Expr, no: Expr) -> Expr:
    return Operation(ExprOp.WHERE, (condition, yes, no))


def _current_node() -> Any:
    scheduled = V.graph.scheduler.current_node
    return getattr(scheduled, "node", None)


def _text_refused(text: object, node: object) -> DiagnosticError:
    hint = None
    if "synchronize()" in str(text):
        hint = "set CUDA_LAUNCH_BLOCKING=1 in place of triton.debug_sync_kernel"
    frame = sys._getframe(2)
    method = f"{frame.f_code.co_qualname} ({frame.f_code.co_filename.rsplit('/', 1)[-1]})"
    return Code.INDUCTOR_TEXT.error(
        f"Inductor writes text here, which has no form in a program: {str(text)!r}"
        f" from {method}, for {type(node).__name__}",
        hint=hint,
    )
