"""Aliases between the results and arguments of operator calls.

A schema says that results may be views, not that they are: ``reshape`` may copy.  A
composite operator such as ``dropout`` may return its argument without an alias in its
schema.  In such cases the operator runs on the graph's fake tensors, and the storages of
results and arguments are compared.
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree

from wrapperir.operators import UPDATE_STATISTICS, given_arguments, schema_of


def written_arguments(operator: OpOverload, node: torch.fx.Node) -> list[Any]:
    """Return the nodes (or lists of nodes) that a call writes to."""
    schema = schema_of(operator)
    given = given_arguments(schema, node.args, node.kwargs)
    written: list[Any] = [value for parameter, value in given if parameter.is_written]
    if schema.name.removeprefix("aten::") in UPDATE_STATISTICS:
        values = {parameter.name: value for parameter, value in given}
        if values.get("training", values.get("use_input_stats")) is not False:
            statistics = values.get("running_mean"), values.get("running_var")
            written += [value for value in statistics if value is not None]
    return written


def returned_arguments(operator: OpOverload, node: torch.fx.Node) -> list[Any]:
    """Return the argument that each result is, as ``add_`` returns its self.

    The list is empty if a result is not a written argument.
    """
    schema = schema_of(operator)
    given = given_arguments(schema, node.args, node.kwargs)
    values: dict[str | None, Any] = {parameter.name: value for parameter, value in given}
    if not all(name in values for name in schema.returned):
        return []
    return [values[name] for name in schema.returned]


def may_share(operator: OpOverload) -> bool:
    """Say whether a result of the operator may share storage with an argument."""
    schema = schema_of(operator)
    if schema.may_view or any(schema.returned):
        return True
    name = f"{schema.name}.{schema.overload}" if schema.overload else schema.name
    registered = torch._C._dispatch_has_kernel_for_dispatch_key  # pyright: ignore
    return bool(registered(name, "CompositeImplicitAutograd"))


def shared_results(
    operator: OpOverload, node: torch.fx.Node
) -> list[tuple[Any, torch.fx.Node | None]] | None:
    """Return each result, and the argument whose storage it has, or ``None`` for it.

    The results are what the operator returns for the fake tensors of the graph.  ``None``
    for all means that running it on them failed, so nothing is known.
    """
    sources = [
        arg for arg in node.all_input_nodes if isinstance(arg.meta.get("val"), FakeTensor)
    ]
    if not sources:
        return None
    try:
        results = _run_fake(operator, node, sources[0].meta["val"])
    except Exception:  # whatever the operator raises: then nothing is known
        return None
    strided = [source for source in sources if _is_strided(source.meta["val"])]
    owners = {storage_key(source.meta["val"]): source for source in reversed(strided)}
    return [
        (result, owners.get(storage_key(result)) if _is_strided(result) else None)
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


def _is_strided(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def storage_key(tensor: torch.Tensor) -> int:
    """Return a number that tensors have in common that share a storage, while they live."""
    return int(tensor.untyped_storage()._cdata)  # pyright: ignore[reportPrivateUsage]
