"""Differences between the releases of Inductor that the adapter supports.

It is tested with 2.13.  2.11 writes checks of sizes as text, and those of inputs before
all other lines.  It has no call that writes several outputs, no results that are objects,
and no storage offsets of inputs, and it works on the caller's stream only.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import compile_fx, ir
from torch._inductor.codegen import wrapper
from torch._inductor.graph import GraphLowering

EXTERN_MULTI_OUT_LINE: type[Any] | None = getattr(wrapper, "ExternKernelMultiOutLine", None)
"""The line of a call that writes to several buffers, where there is one."""

ENTER_STREAMS: type[Any] | tuple[()] = getattr(
    wrapper, "EnterDeviceContextManagerWithStreamInfoLine", ()
)
"""The line that looks the user's streams up; ``()`` in 2.11, which works on one stream."""

EXIT_STREAMS, ENTER_STREAM, EXIT_STREAM = (
    getattr(wrapper, name, None)
    for name in (
        "ExitDeviceContextManagerWithStreamInfoLine",
        "EnterCudaStreamContextLine",
        "ExitCudaStreamContextLine",
    )
)
"""The other lines of streams, where there are any."""

DEFERS_INPUT_CHECKS = hasattr(
    wrapper.PythonWrapperCodegen, "codegen_deferred_input_asserts"
)
"""Whether the scheduler asks for an input's check before the input's first use."""

OPAQUE_OUTPUT: type[Any] | tuple[()] = getattr(ir, "OpaqueMultiOutput", ())
"""Class of a result that is an object; ``()``, which has no instances, before 2.13."""

CONSTANT_OBJECT: type[Any] | tuple[()] = getattr(ir, "OpaqueValueTypeConstant", ())
"""Class of an output that is a constant object; ``()`` before 2.13."""

KNOWS_INPUT_OFFSETS = hasattr(GraphLowering, "symbolic_sizes_strides_storage_offset")
"""Whether ``as_strided`` of an input counts from the start of the input's storage."""

_SIZE_CHECK = "assert_size_stride("


def is_size_check(text: object, node: object) -> bool:
    """Say whether ``text`` is the check of a node's size and stride, as 2.11 writes it."""
    return (
        isinstance(text, str)
        and text.startswith(_SIZE_CHECK)
        and isinstance(node, ir.ExternKernel)
    )


def run_joint_passes(
    graph: torch.fx.GraphModule, inputs: Sequence[Any]
) -> torch.fx.GraphModule:
    """Run the passes that Inductor runs between tracing and lowering."""
    device = next((x.device for x in inputs if isinstance(x, torch.Tensor)), None)
    passes: Any = compile_fx._recursive_joint_graph_passes  # pyright: ignore
    known = inspect.signature(passes).parameters
    done: torch.fx.GraphModule = (
        passes(graph, input_device=device) if "input_device" in known else passes(graph)
    )
    return done
