"""Inductor's cut of training graphs, made to save what is drawn in checkpoints."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from wrapperir.frontend.aten.saved_draws import cut_saving_draws


class SavingDraws(CustomPartitionerFn):
    """The partitioner that Inductor is given if the user gives none."""

    def __call__(
        self, gm: torch.fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any
    ) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
        """Return the forward and the backward graph of a joint graph."""
        return cut_saving_draws(gm, joint_inputs, **kwargs)

    def uuid(self) -> str:
        """Return what PyTorch's keys of graphs have for it."""
        return "wrapperir.saved_draws"


def with_saved_draws(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings of Inductor with our partitioner, unless there is another."""
    ours = {} if config.custom_partitioner_fn else {"custom_partitioner_fn": SavingDraws()}
    return {**ours, **settings}
