"""PyTorch's attention for GPUs, made up for the CPU."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch


@contextlib.contextmanager
def attention_operators() -> Iterator[list[str]]:
    """Have the CPU run memory-efficient and cuDNN's attention; give the names that ran.

    Results have the heads of each position together, and rows that see nothing are 0.
    There is nothing for gradients.
    """
    ran: list[str] = []

    def attend(name: str, *rest: Any) -> Callable[..., Any]:
        def run(
            query: torch.Tensor,
            key: torch.Tensor,
            value: torch.Tensor,
            mask: torch.Tensor | None,
            log_sum: bool,
            dropout: float = 0.0,
            causal: bool = False,
            debug: bool = False,
            *,
            scale: float | None = None,
        ) -> Any:
            ran.append(name)
            assert not any((log_sum, dropout, debug))
            q, k, v = (x.float() for x in (query, key, value))
            scores = (
                q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
            )
            scores = scores if mask is None else scores + mask
            if causal:
                hidden = ~torch.ones_like(scores).tril().bool()
                scores = scores.masked_fill(hidden, float("-inf"))
            made = scores.softmax(3).nan_to_num(0.0) @ v
            dense = made.to(query.dtype).transpose(1, 2).contiguous().transpose(1, 2)
            sums = (q.shape[2], 1) if "cudnn" in name else (0,)
            return dense, made.new_empty(*q.shape[:2], *sums), *rest

        return run

    number = torch.zeros((), dtype=torch.int64)
    # In this order: cumulative lengths, the longest, the generator's state, a mask.
    rest = {
        "efficient": (number, number),
        "cudnn": (None, None, 0, 0, number, number, None),
    }
    make_library: Any = torch.library.Library  # not annotated
    library = make_library("aten", "IMPL")
    try:
        for kind, others in rest.items():
            name = f"_scaled_dot_product_{kind}_attention"
            library.impl(name, attend(name, *others), "CPU")
        yield ran
    finally:
        library._destroy()
