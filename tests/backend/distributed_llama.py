"""Trains a Llama that is split over ranks, and compares it with the same one on one rank.

``python -m tests.backend.distributed_llama SPLIT RANKS EMITTER FRONTEND FOLDER``; each rank
is a fork of this process, with all that it imported, and writes its programs in a folder of
``FOLDER``.
"""

import copy
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, parallel
from transformers import LlamaConfig, LlamaForCausalLM

from wrapperir.text import parse_program
from wrapperir.verify import verify_ranks

CONFIG = LlamaConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    max_position_embeddings=16,
    attn_implementation="sdpa",
    use_cache=False,
)


def split_tensors(model: Any, mesh: DeviceMesh) -> None:
    """Split the matrices of each layer between the ranks."""
    columns, rows = parallel.ColwiseParallel(), parallel.RowwiseParallel()
    plan: dict[str, parallel.ParallelStyle] = {
        **{f"self_attn.{name}_proj": columns for name in "qkv"},
        "self_attn.o_proj": rows,
        "mlp.gate_proj": columns,
        "mlp.up_proj": columns,
        "mlp.down_proj": rows,
    }
    for layer in model.model.layers:
        parallel.parallelize_module(layer, mesh, plan)


def split_parameters(model: Any, mesh: DeviceMesh) -> None:
    """Keep a part of each parameter on each rank."""
    for module in (*model.model.layers, model):
        fully_shard(module, mesh=mesh)


SPLITS: dict[str, Callable[[Any, DeviceMesh], None]] = {
    "tensors": split_tensors,
    "parameters": split_parameters,
}


def step(function: Any, model: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Return the results of inference and training, and all gradients."""
    with torch.no_grad():
        inferred = function(x).logits
    model.zero_grad()
    loss = function(x, labels=x).loss
    loss.backward()
    gradients = [_whole(parameter.grad) for parameter in model.parameters()]
    return [_whole(inferred), _whole(loss.detach()), *gradients]


def _whole(value: Any) -> torch.Tensor:
    whole: torch.Tensor = value.full_tensor() if isinstance(value, DTensor) else value
    return whole.clone()


def train(rank: int, split: str, size: int, options: Any, folder: Path) -> None:
    """Compare the compiled model's results with those of the model on one rank."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=size
    )
    try:
        torch.manual_seed(0)
        whole = LlamaForCausalLM(CONFIG)
        model = copy.deepcopy(whole)
        SPLITS[split](model, init_device_mesh("cpu", (size,)))
        x = torch.randint(CONFIG.vocab_size, (2, 8))
        compiled = torch.compile(
            model,
            backend="wrapperir",
            options={**options, "dump_dir": str(folder / f"rank{rank}")},
        )
        found = step(compiled, model, x)
        torch.testing.assert_close(found, step(whole, whole, x))
    finally:
        distributed.destroy_process_group()


def check_programs(folder: Path, size: int) -> int:
    """Verify the programs of all ranks together; return how many collectives they start."""
    found = 0
    for path in sorted((folder / "rank0").glob("*/program.wir")):
        name = path.relative_to(folder / "rank0")
        texts = [(folder / f"rank{rank}" / name).read_text() for rank in range(size)]
        faults = verify_ranks([parse_program(text) for text in texts])
        assert not any(faults), faults
        found += texts[0].count(" = collective ")
    return found


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    split, ranks, emitter, frontend, given = sys.argv[1:]
    folder, size = Path(given), int(ranks)
    start: Any = vars(multiprocessing)["start_processes"]
    options = {"emitter": emitter, "frontend": frontend}
    start(train, (split, size, options, folder), nprocs=size, start_method="fork")
    print(f"{check_programs(folder, size)} collectives")
