"""Operators that call a method of a TorchBind object, in ``torch.ops.wrapperir_methods``.

PyTorch calls methods by a higher-order operator, which is not in its dispatcher.  An
operator of the same schema is registered for each method that a graph calls.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

from typing import Any, cast

import torch
from torch._higher_order_ops.torchbind import CallTorchBind
from torch.fx.node import has_side_effect
from torch.library import Library

from wrapperir.diagnostics import Code

_NAMESPACE = "wrapperir_methods"
# An operator lives as long as its library.
_LIBRARY = cast(Any, Library)(_NAMESPACE, "DEF")  # torch gives it no types
_METHODS: dict[str, tuple[str, str]] = {}
"""Class and method of each operator."""


def calls_method(node: object) -> bool:
    """Say whether a node calls a method of a TorchBind object."""
    return isinstance(getattr(node, "op_overload", None), CallTorchBind)


def method_operator(value: Any, method: str) -> str:
    """Return the name of the operator that calls a method of objects like ``value``.

    Raises:
        DiagnosticError: WIR652, the methods of two classes have one name.
    """
    known: str = value._type().qualified_name()
    parts = known.removeprefix("__torch__.torch.classes.").split(".")
    name = "__".join(("of", *parts, method))
    if name not in _METHODS:
        schema = str(value._get_method(method).schema)
        _LIBRARY.define(name + schema[schema.index("(") :])

        def call(self: Any, *arguments: Any, **keywords: Any) -> object:
            return getattr(self, method)(*arguments, **keywords)

        _LIBRARY.impl(name, call, "CompositeExplicitAutograd")
        has_side_effect(getattr(torch.ops.wrapperir_methods, name).default)
        _METHODS[name] = known, method
    if _METHODS[name] != (known, method):
        raise Code.INDUCTOR_OPERATOR.error(
            f"{known}.{method} and {'.'.join(_METHODS[name])} have one name in a program",
            hint="rename one of the classes or methods",
        )
    return f"{_NAMESPACE}.{name}.default"
