"""The FX dialect: functions, attributes and metadata of graphs of programs.

The FX emitter writes these graphs and :mod:`wrapperir.frontend.fx` reads them.
"""

from wrapperir.fx.graphs import (
    LINES,
    PROVENANCE,
    Attributes,
    GraphBuilder,
    GraphParts,
    header_of,
    recorded_program,
)
from wrapperir.fx.kernel_keys import (
    MultiKernelDefinition,
    argument_order,
    call_key,
    deciding_parameters,
    definition_key,
    multi_kernel_key,
    split_arguments,
    split_key,
)
from wrapperir.fx.kernel_registry import (
    Launcher,
    MultiKernelRunner,
    opaque_launcher,
    register_kernel,
    register_multi_kernel,
    register_triton_function,
    registered_definition,
    registered_launcher,
    registered_multi_kernel,
    triton_definition,
)
from wrapperir.fx.operators import assert_alignment, call_kernel, call_multi_kernel
from wrapperir.fx.workspaces import KeptWorkspace, is_static, make_workspace

__all__ = [
    "LINES",
    "PROVENANCE",
    "Attributes",
    "GraphBuilder",
    "GraphParts",
    "KeptWorkspace",
    "Launcher",
    "MultiKernelDefinition",
    "MultiKernelRunner",
    "argument_order",
    "assert_alignment",
    "call_kernel",
    "call_key",
    "call_multi_kernel",
    "deciding_parameters",
    "definition_key",
    "header_of",
    "is_static",
    "make_workspace",
    "multi_kernel_key",
    "opaque_launcher",
    "recorded_program",
    "register_kernel",
    "register_multi_kernel",
    "register_triton_function",
    "registered_definition",
    "registered_launcher",
    "registered_multi_kernel",
    "split_arguments",
    "split_key",
    "triton_definition",
]
