"""The configs that Inductor's heuristics choose for a Triton kernel."""

import ast
import copy
import threading
from collections.abc import Mapping
from typing import Any
from unittest import mock

from torch._inductor.runtime import hints, triton_heuristics

from wrapperir.diagnostics import Code
from wrapperir.ir import ConfigValue, KernelConfig

_LOCK = threading.Lock()


def heuristic_configs(
    decorator: ast.Call, triton_meta: Mapping[str, Any], inductor_meta: Mapping[str, Any]
) -> tuple[KernelConfig, ...]:
    """Return the configs of a kernel, the preferred one first.

    ``decorator`` is the call of the heuristic above the kernel, as Inductor writes it;
    the two tables in it are given apart, as data.

    Raises:
        DiagnosticError: WIR654, an argument of the heuristic is of an unknown form.
    """
    assert isinstance(decorator.func, ast.Attribute)
    heuristic = getattr(triton_heuristics, decorator.func.attr)
    arguments: dict[str, Any] = {
        keyword.arg: _value(keyword.value)
        for keyword in decorator.keywords
        if keyword.arg not in (None, "filename", "triton_meta", "inductor_meta")
    }
    chosen: list[Any] = []

    def record(size_hints: Any, configs: list[Any], **_: Any) -> None:
        chosen.extend(configs)

    # The heuristics end in one call that takes the configs; it builds a tuner, which
    # needs a device.
    with _LOCK, mock.patch.object(triton_heuristics, "cached_autotune", record):
        heuristic(
            **arguments,
            filename=None,
            triton_meta=copy.deepcopy(dict(triton_meta)),
            inductor_meta=copy.deepcopy(dict(inductor_meta)),
        )
    return tuple(dict.fromkeys(KernelConfig(_values(config)) for config in chosen))


def _values(config: Any) -> tuple[tuple[str, ConfigValue], ...]:
    values: dict[str, ConfigValue] = {
        **config.kwargs,
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }
    return tuple(values.items())


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Attribute(value=ast.Name(id="ReductionHint" | "TileHint" as kind)):
            return getattr(getattr(hints, kind), node.attr)
        case _:
            pass
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise Code.INDUCTOR_KERNEL.error(
            f"a heuristic is given {ast.unparse(node)}"
        ) from None
