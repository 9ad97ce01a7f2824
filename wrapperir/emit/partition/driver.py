"""Runs a partitioned program: one part after the other, with the values between them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import field, frozen

from wrapperir.emit.contract import Loaded, Value
from wrapperir.emit.partition.plan import PartPlan

if TYPE_CHECKING:
    import torch


@frozen
class PartitionedProgram:
    """A loaded program of several parts.

    ``calls`` are the loaded parts.  A value is dropped, or given away for good, with the
    last step that needs it.
    """

    plan: PartPlan
    calls: Sequence[Loaded]
    constants: Mapping[str, "torch.Tensor"] = field(factory=dict[str, "torch.Tensor"])

    def __call__(self, inputs: list[Value]) -> tuple[Value, ...]:
        """Run the program on a list of inputs, which is emptied.

        Raises:
            RuntimeError: the number of inputs is wrong, or a part fails.
        """
        from wrapperir.emit.input_check import check_count  # it imports torch

        plan = self.plan
        check_count(inputs, len(plan.inputs))
        values: dict[str, Value] = dict(zip(plan.inputs, inputs, strict=True))
        values.update(self.constants)
        inputs.clear()
        for step, call in zip(plan.steps, self.calls, strict=True):
            given = [
                values.pop(key) if is_last else values[key]
                for key, is_last in zip(step.arguments, step.last, strict=True)
            ]
            results = call(given)
            values.update(zip(step.results, results, strict=True))
            del given, results  # nothing here keeps what the next part may release
        return tuple([values[key] for key in plan.outputs])
