"""A Python file that compiles a graph again, with other values of its inputs."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

_PREFACE = """\
import torch
from torch import device, inf, nan

"""


def format_repeat(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    given: Mapping[str, object],
    mode: str | None,
) -> str:
    """Return a file that compiles a graph of Dynamo's with these options, and runs it.

    Inputs have the dtypes, sizes and strides of ``inputs``: random numbers, and zeros for
    integers, which may be indices.  Tensors that the graph holds itself, and options that
    are objects, are left to the reader.
    """
    text = graph.print_readable(print_output=False, include_device=False)
    options = {name: value for name, value in given.items() if _is_literal(value)}
    others = [name for name in given if name not in options]
    settings = f"mode={mode!r}" if mode is not None else f"options={options!r}"
    lines = [
        _PREFACE,
        *(f"# The option {name!r} is an object, which is not here.\n" for name in others),
        text,
        "\n\ntorch.manual_seed(0)\ninputs = [\n",
        *(f"    {_format_input(value)},\n" for value in inputs),
        ']\nmodel = torch.compile(\n    GraphModule(),\n    backend="wrapperir",\n',
        f"    {settings},\n)\nresult = model(*inputs)\n",
    ]
    if any(isinstance(each, torch.Tensor) and each.requires_grad for each in inputs):
        lines.append(
            "results = [x for x in torch.utils._pytree.tree_leaves(result)"
            " if isinstance(x, torch.Tensor) and x.requires_grad]\n"
            "if results:\n    sum(x.sum() for x in results).backward()\n"
        )
    return "".join(lines)


def _format_input(value: object) -> str:
    if isinstance(value, torch.SymInt | int) and not isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, torch.Tensor):
        return repr(value) if _is_literal(value) else f"None  # {type(value).__name__}"
    size, stride = ([int(x) for x in each] for each in (value.shape, value.stride()))
    made = (
        f"torch.empty_strided({size}, {stride}, dtype={value.dtype},"
        f" device={str(value.device)!r})"
    )
    filled = ".normal_()" if value.is_floating_point() or value.is_complex() else ".zero_()"
    return made + filled + (".requires_grad_()" if value.requires_grad else "")


def _is_literal(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_literal, cast("Sequence[object]", value)))
    return value is None or isinstance(value, bool | int | float | str)
