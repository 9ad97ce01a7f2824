"""A graph's code as a function that empties the list of its inputs."""

# FX says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Set

from torch.fx import GraphModule
from torch.fx.graph import CodeGen

from wrapperir.emit.contract import Loaded
from wrapperir_fx.idle_nodes import erase_idle_nodes


class _BoxedCode(CodeGen):
    """Writes ``forward`` with one parameter, a list that it empties.

    So an input's memory goes where the graph's code drops the input, unless the caller
    holds it too.  The parameter has a name that none of ``names`` is.
    """

    def __init__(self, names: Set[str]) -> None:
        """Write the code of a graph whose nodes have these names."""
        super().__init__()
        self._given = "inputs"
        while self._given in names:
            self._given += "_"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, **_: object
    ) -> str:
        names = [name.split(":")[0].split("=")[0].strip() for name in free_vars]
        targets = "".join(f"{name}, " for name in names if name != "self")
        given = self._given
        text = f"def {self._func_name}(self, {given}){maybe_return_annotation}:"
        if targets:
            text += f"\n    {targets}= {given}"
        return text + f"\n    {given}.clear()"


def boxed(module: GraphModule) -> Loaded:
    """Return what runs the graph of ``module``, which takes such a list from then on.

    The graph keeps the nodes that a run needs.
    """
    erase_idle_nodes(module.graph)
    names = {node.name for node in module.graph.nodes}
    module.graph.set_codegen(_BoxedCode(names))
    module.recompile()
    run: Loaded = module.forward
    return run
