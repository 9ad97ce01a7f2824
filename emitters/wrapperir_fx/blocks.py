"""Lines with nested blocks: higher-order operators over nested graphs."""

from typing import TYPE_CHECKING

from wrapperir.ir.line import ConditionalLine, SubgraphCallLine, WhileLoopLine

if TYPE_CHECKING:
    from wrapperir_fx.lines import FxLines


def emit_conditional(lines: "FxLines", line: ConditionalLine) -> None:
    """Append ``cond`` and a graph for each branch."""
    raise NotImplementedError


def emit_while_loop(lines: "FxLines", line: WhileLoopLine) -> None:
    """Append ``while_loop`` and its two graphs."""
    raise NotImplementedError


def emit_subgraph_call(lines: "FxLines", line: SubgraphCallLine) -> None:
    """Append ``invoke_subgraph`` and its graph."""
    raise NotImplementedError
