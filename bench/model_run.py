"""Runs of a model, for inference or training, and the comparison of their results."""

import copy
import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

import torch
from attrs import frozen
from torch.utils import _pytree as pytree

Config = TypeVar("Config")


@frozen(kw_only=True)
class ModelTask:
    """A model, its inputs and what is done with them."""

    name: str
    model: Callable[[], torch.nn.Module]
    inputs: Callable[[], dict[str, torch.Tensor]]
    training: bool = False


def without_dropout(config: Config) -> Config:
    """Set every dropout rate of a transformers configuration to 0, and return it.

    Random masks differ between eager and compiled code, so nothing could be compared.
    """
    for name, value in list(vars(config).items()):
        if isinstance(value, float) and ("drop" in name or name.endswith("pdrop")):
            setattr(config, name, 0.0)
    return config


def run_step(
    model: torch.nn.Module,
    call: Callable[..., object],
    inputs: Mapping[str, torch.Tensor],
    *,
    training: bool,
) -> dict[str, torch.Tensor]:
    """Run ``call``, which is ``model`` or compiled from it, and return every tensor.

    These are the outputs by their place, and in training also the gradients and the
    buffers, by name.  The loss is the model's own, or the mean square of its first
    output.
    """
    model.zero_grad(set_to_none=True)
    with torch.set_grad_enabled(training):
        output = call(**inputs)
    leaves, _ = pytree.tree_flatten_with_path(output)
    outputs = [(pytree.keystr(p), v) for p, v in leaves if isinstance(v, torch.Tensor)]
    tensors = {f"output{path}": value.detach().clone() for path, value in outputs}
    if training:
        loss = getattr(output, "loss", None)
        if loss is None:
            loss = outputs[0][1].pow(2).mean()
        loss.backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                tensors[f"gradient {name}"] = parameter.grad.clone()
        for name, buffer in model.named_buffers():
            tensors[f"buffer {name}"] = buffer.clone()
    return tensors


def run_exactly(
    model: torch.nn.Module, inputs: Mapping[str, torch.Tensor], *, training: bool
) -> dict[str, torch.Tensor]:
    """Return what :func:`run_step` does of a copy of the model in f64."""
    exact = copy.deepcopy(model).double()
    choose_experts = getattr(exact, "set_experts_implementation", None)
    if choose_experts is not None:
        choose_experts("batched_mm")  # others have no f64
    given = {
        name: value.double() if value.is_floating_point() else value
        for name, value in inputs.items()
    }
    return run_step(exact, exact, given, training=training)


def max_error(
    expected: Mapping[str, torch.Tensor], actual: Mapping[str, torch.Tensor]
) -> float:
    """Return the largest absolute difference; infinite if the tensors do not pair up.

    They pair up by name, shape and dtype; what is expected may be in f64.
    """
    if expected.keys() != actual.keys():
        return math.inf
    largest = 0.0
    for name, left in expected.items():
        right = actual[name]
        if left.shape != right.shape or left.dtype not in (right.dtype, torch.float64):
            return math.inf
        if left.numel() == 0 or torch.equal(left, right):
            continue
        difference = (left.double() - right.double()).abs().max().item()
        largest = max(largest, difference if difference == difference else math.inf)
    return largest


def relative_errors(
    expected: Mapping[str, torch.Tensor], actual: Mapping[str, torch.Tensor]
) -> dict[str, float]:
    """Return how far each tensor is from the one expected in f64, relative to this.

    That is the norm of the difference divided by the norm of what is expected.  Tensors of
    zeros, and integers, must be equal: otherwise their error is infinite, as is every error
    if the tensors do not pair up.
    """
    if max_error(expected, actual) == math.inf:
        return dict.fromkeys(expected, math.inf)
    errors: dict[str, float] = {}
    for name, left in expected.items():
        norm = left.double().norm().item()
        distance = _distance(expected, actual, name)
        comparable = norm and left.is_floating_point()
        errors[name] = (distance / norm if comparable else math.inf) if distance else 0.0
    return errors


NOISE = 1.1
"""How much larger an error may be in another order of operations."""
LOST = 2.0
"""How much larger the error of one tensor may be of which rounding leaves nothing."""


def describe_excess(
    expected: Mapping[str, torch.Tensor],
    actual: Mapping[str, torch.Tensor],
    inductor: Mapping[str, torch.Tensor],
    inductor_error: float,
    exact: Callable[[], Mapping[str, torch.Tensor]],
) -> str | None:
    """Return how results are too far from eager's, which are expected; ``None`` if not.

    They may differ by no more than ``inductor_error``, the largest difference of plain
    Inductor's, which is often the rounding of one number.  They may also be about as close
    as eager's or Inductor's to ``exact``, the results of the model in f64: by the root mean
    square of the tensors' relative errors.  Tensors whose errors are as large as they are
    themselves, such as a gradient that is 0 but for rounding, would hide all others there,
    and are compared one by one.
    """
    error = max_error(expected, actual)
    if error <= inductor_error:
        return None
    reference = exact()
    ours, eager, theirs = (
        relative_errors(reference, each) for each in (actual, expected, inductor)
    )
    lost = {name for name in eager if max(eager[name], theirs[name]) >= 1}
    allowed = NOISE * max(_mean(eager, lost), _mean(theirs, lost))
    if _mean(ours, lost) > allowed:
        against = f"relative error against f64, {_mean(ours, lost):.3g}, exceeds"
        against += f" {allowed:.3g}, {NOISE} of eager's and of plain Inductor's"
    else:
        wrong = [
            name
            for name in lost
            if not _distance(reference, actual, name)  # NaN is wrong, too
            <= LOST * max(_distance(reference, each, name) for each in (expected, inductor))
        ]
        if not wrong:
            return None
        against = f"error of {min(wrong)}, of which rounding leaves nothing, exceeds"
        against += f" {LOST} of eager's and of plain Inductor's"
    larger = f"error {error:.3g} exceeds plain Inductor's {inductor_error:.3g}"
    return f"{larger}, and the {against}"


def _distance(
    expected: Mapping[str, torch.Tensor], actual: Mapping[str, torch.Tensor], name: str
) -> float:
    difference = actual[name].double() - expected[name].double()
    return float(difference.norm().item())


def _mean(errors: Mapping[str, float], without: AbstractSet[str]) -> float:
    """Return the root mean square of errors."""
    squares = [error**2 for name, error in errors.items() if name not in without]
    return math.sqrt(sum(squares) / max(len(squares), 1))
