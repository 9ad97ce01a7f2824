"""Lowering of FX graphs: of the FX emitter, of Inductor, and of ATen operators."""

from torch.fx import GraphModule

from wrapperir.frontend import Lowered
from wrapperir.frontend.fx.exact import lower_exactly
from wrapperir.frontend.fx.structure import lower_structure

__all__ = ["Lowered", "lower_graph_module"]


def lower_graph_module(module: GraphModule) -> Lowered:
    """Return the program of a graph, and the tensors that its module holds.

    An unchanged graph of the FX emitter gives exactly the program that it was built from.
     Any other graph is read node by node: operators as ``torch.ops`` has them,
    ``torch.empty_strided`` and ``torch.as_strided``, arithmetic, Triton kernels, control
    flow, and the functions of ``wrapperir.fx``.  Graphs of Inductor's FX backend are read
    in this way too.

    Values have the types of ``node.meta["val"]``.  An input has the storage offset of its
    example: ``as_strided`` counts from the start of a storage.  Memory
    that the graph does not free is freed after its last use.

    Raises:
        DiagnosticError: WIR600 to WIR607, one for each thing that cannot be read.
    """
    return lower_exactly(module) or lower_structure(module)
