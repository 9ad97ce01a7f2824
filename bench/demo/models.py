"""The models of the demo: real architectures, small sizes, random weights."""

from functools import partial

import torch

from bench.model_run import ModelTask
from bench.small_models import VOCABULARY, bert, gpt2, llama

BATCH, LENGTH = 2, 64
WIDTH, LAYERS = 128, 2


def _tokens() -> dict[str, torch.Tensor]:
    """Return token ids that are also the labels of a language model."""
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    return {"input_ids": tokens, "labels": tokens}


DEMO = (
    ModelTask(name="bert", model=partial(bert, WIDTH, LAYERS), inputs=_tokens),
    ModelTask(name="gpt2", model=partial(gpt2, WIDTH, LAYERS), inputs=_tokens),
    ModelTask(name="llama", model=partial(llama, WIDTH, LAYERS, 344), inputs=_tokens),
    ModelTask(
        name="gpt2-training",
        model=partial(gpt2, WIDTH, LAYERS),
        inputs=_tokens,
        training=True,
    ),
)
