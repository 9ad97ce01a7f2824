"""Which results of an operator share storage with which of its arguments.

A schema says which results may be views, not whether they are: ``reshape`` may copy, and
an operator that is a Python or C++ composition, such as ``dropout``, may return its
argument though its schema says nothing.  So where the schema leaves it open, the
operator is run on the graph's fake tensors, and the storages are compared.
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree


def schema_of(operator: OpOverload) -> Any:
    """Return the operator's schema: its name, arguments, returns, and their aliases."""
    return operator._schema  # pyright: ignore[reportPrivateUsage]


def written_arguments(operator: OpOverload, node: torch.fx.Node) -> list[Any]:
    """Return the nodes (or lists of nodes) that a call writes to."""
    written = [
        value
        for argument, value in _bound(schema_of(operator), node)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return written + _undeclared_writes(operator, node)


def returned_arguments(operator: OpOverload, node: torch.fx.Node) -> list[Any]:
    """Return for each result the node it is identical to, as ``add_`` returns its self.

    The list is empty where some result is not a written argument.
    """
    bound = list(_bound(schema_of(operator), node))
    found: list[Any] = []
    for result in schema_of(operator).returns:
        if result.alias_info is None or not result.alias_info.is_write:
            return []
        sets = result.alias_info.before_set
        for argument, value in bound:
            info = argument.alias_info
            if info is not None and info.before_set & sets:
                found.append(value)
                break
    return found


def may_share(operator: OpOverload) -> bool:
    """Say whether a result of the operator may share storage with an argument."""
    schema = schema_of(operator)
    if any(result.alias_info is not None for result in schema.returns):
        return True
    registered = torch._C._dispatch_has_kernel_for_dispatch_key  # pyright: ignore
    return bool(registered(_qualified_name(operator), "CompositeImplicitAutograd"))


def _qualified_name(operator: OpOverload) -> str:
    schema = schema_of(operator)
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def shared_arguments(
    operator: OpOverload, node: torch.fx.Node
) -> list[torch.fx.Node | None] | None:
    """Return for each result tensor the argument whose storage it has, or ``None`` for it.

    ``None`` for all means that running the operator on fake tensors failed, so it is
    not known.
    """
    shared = shared_results(operator, node)
    return None if shared is None else [source for _, source in shared]


def shared_results(
    operator: OpOverload, node: torch.fx.Node
) -> list[tuple[Any, torch.fx.Node | None]] | None:
    """Return each result and its argument, as :func:`shared_arguments` does.

    The results are what the operator returns for the fake tensors of the graph.
    """
    sources = [arg for arg in node.all_input_nodes if _is_fake(arg.meta.get("val"))]
    if not sources:
        return None
    try:
        results = _run_fake(operator, node, sources[0].meta["val"])
    except Exception:  # whatever the operator raises: then nothing is known
        return None
    strided = [source for source in sources if _is_strided(source.meta["val"])]
    owners = {_storage(source.meta["val"]): source for source in reversed(strided)}
    return [
        (result, owners.get(_storage(result)) if _is_strided(result) else None)
        for result in pytree.tree_leaves(results)
    ]


def _run_fake(operator: OpOverload, node: torch.fx.Node, example: FakeTensor) -> Any:
    mode = example.fake_mode
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda arg: arg.meta["val"])
    environment: Any = mode.shape_env
    quiet = nullcontext() if environment is None else environment.suppress_guards()
    fresh = (
        nullcontext()
        if environment is None
        else environment.ignore_fresh_unbacked_symbols()
    )
    with mode, quiet, fresh, torch.no_grad():
        return operator(*args, **kwargs)


def _is_fake(value: object) -> bool:
    return isinstance(value, FakeTensor)


def _is_strided(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # pyright: ignore[reportPrivateUsage]


def _bound(schema: Any, node: torch.fx.Node) -> list[tuple[Any, Any]]:
    """Pair the schema's arguments with those of the call; defaults are left out."""
    pairs: list[tuple[Any, Any]] = []
    for position, argument in enumerate(schema.arguments):
        if argument.name in node.kwargs:
            pairs.append((argument, node.kwargs[argument.name]))
        elif position < len(node.args):
            pairs.append((argument, node.args[position]))
    return pairs


_UPDATES_STATISTICS = frozenset(
    {
        "aten::_batch_norm_impl_index",
        "aten::batch_norm",
        "aten::cudnn_batch_norm",
        "aten::instance_norm",
        "aten::miopen_batch_norm",
        "aten::native_batch_norm",
    }
)
"""These change running statistics in training though their schema does not say so."""


def _undeclared_writes(operator: OpOverload, node: torch.fx.Node) -> list[Any]:
    if schema_of(operator).name not in _UPDATES_STATISTICS:
        return []
    given = {argument.name: value for argument, value in _bound(schema_of(operator), node)}
    if given.get("training", given.get("use_input_stats")) is False:
        return []
    return [
        given[name]
        for name in ("running_mean", "running_var")
        if given.get(name) is not None
    ]
