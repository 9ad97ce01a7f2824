"""A graph's code as a function that empties the list of its inputs."""

# FX says little of its types.
# pyright: reportUnknownMemberType=false

from torch.fx import GraphModule
from torch.fx.graph import CodeGen

from wrapperir.emit.contract import Loaded
from wrapperir_fx.idle_nodes import erase_idle_nodes


class _BoxedCode(CodeGen):
    """Writes ``forward`` with one parameter, a list that it empties.

    So an input's memory goes where the graph's code drops the input, unless the caller
    holds it too.
    """

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, **_: object
    ) -> str:
        names = [name.split(":")[0].split("=")[0].strip() for name in free_vars]
        targets = "".join(f"{name}, " for name in names if name != "self")
        text = f"def {self._func_name}(self, __inputs){maybe_return_annotation}:"
        if targets:
            text += f"\n    {targets}= __inputs"
        return text + "\n    __inputs.clear()"


def boxed(module: GraphModule) -> Loaded:
    """Return what runs the graph of ``module``, which takes such a list from then on.

    The graph keeps the nodes that a run needs.
    """
    erase_idle_nodes(module.graph)
    module.graph.set_codegen(_BoxedCode())
    module.recompile()
    run: Loaded = module.forward
    return run
