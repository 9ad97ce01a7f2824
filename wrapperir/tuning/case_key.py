"""What decides the times of a case, as facts of a cache's key."""

from collections.abc import Mapping, Sequence

from wrapperir.emit.kernel_digest import kernel_digest
from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.ir.expr import Expr, Number, evaluate, evaluate_int
from wrapperir.ir.line import KernelDefinitionLine, MultiKernelLine
from wrapperir.ir.types import TensorType
from wrapperir.tuning.calls import Call
from wrapperir.tuning.choice_facts import Fact, call_facts, number_fact, tensor_fact


def kernel_facts(
    line: MultiKernelLine, kernels: Sequence[KernelDefinitionLine]
) -> list[tuple[str, Sequence[int]]]:
    """Return the digest of each choice's kernel, and the arguments that it takes."""
    return [
        (kernel_digest(kernel), choice.arguments)
        for choice, kernel in zip(line.choices, kernels, strict=True)
    ]


def case_facts(
    kernels: Sequence[tuple[str, Sequence[int]]],
    call: Call,
    symbols: Mapping[str, Number],
    emitter: str,
) -> dict[str, Fact]:
    """Return all facts that decide the times of a call at values of its symbols.

    Raises:
        EvaluationError: a size or a scalar has no value.
    """
    arguments = [_fact(argument, symbols) for argument in call.arguments]
    return call_facts(kernels, arguments, torch_device(call.device), emitter)


def _fact(argument: TensorType | Expr, symbols: Mapping[str, Number]) -> Fact:
    if not isinstance(argument, TensorType):
        return number_fact(evaluate(argument, symbols))
    return tensor_fact(
        torch_dtype(argument.dtype),
        [evaluate_int(extent, symbols) for extent in argument.size],
        [evaluate_int(step, symbols) for step in argument.stride],
        evaluate_int(argument.offset, symbols) * argument.dtype.itemsize,
    )
