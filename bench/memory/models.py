"""The models of the memory table: 12 layers, small widths, random weights."""

from collections.abc import Callable
from functools import partial

import torch
import transformers as t

from bench.model_run import ModelTask, without_dropout
from bench.small_models import HEADS, VOCABULARY, bert, gpt2, llama

BATCH, LENGTH = 4, 64
WIDTH, LAYERS = 128, 12

Inputs = dict[str, torch.Tensor]


def _tokens() -> Inputs:
    return {"input_ids": torch.randint(3, VOCABULARY, (BATCH, LENGTH))}


def _labelled_tokens() -> Inputs:
    tokens = torch.randint(3, VOCABULARY, (BATCH, LENGTH))
    return {"input_ids": tokens, "labels": tokens}


def _pair_of_texts() -> Inputs:
    tokens = torch.randint(3, VOCABULARY, (BATCH, LENGTH))
    return {"input_ids": tokens, "decoder_input_ids": tokens}


def _image() -> Inputs:
    return {"pixel_values": torch.randn(BATCH, 3, 64, 64)}


def _t5() -> torch.nn.Module:
    config = t.T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        d_ff=4 * WIDTH,
        num_layers=LAYERS,
        num_heads=HEADS,
        decoder_start_token_id=0,
        use_cache=False,
    )
    return t.T5ForConditionalGeneration(without_dropout(config))


def _vit() -> torch.nn.Module:
    config = t.ViTConfig(
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        image_size=64,
        patch_size=8,
    )
    return t.ViTForImageClassification(without_dropout(config))


def _convnext() -> torch.nn.Module:
    config = t.ConvNextConfig(
        hidden_sizes=[32, 64, 128, 256], depths=[2, 2, 6, 2], drop_path_rate=0.0
    )
    return t.ConvNextForImageClassification(config)


def _resnet50() -> torch.nn.Module:
    return t.ResNetForImageClassification(t.ResNetConfig())


_MODELS: tuple[
    tuple[str, Callable[[], torch.nn.Module], Callable[[], Inputs], bool], ...
] = (
    ("bert", partial(bert, WIDTH, LAYERS), _tokens, False),
    ("gpt2", partial(gpt2, WIDTH, LAYERS), _tokens, False),
    ("llama", partial(llama, WIDTH, LAYERS, 344), _tokens, False),
    ("t5", _t5, _pair_of_texts, False),
    ("vit", _vit, _image, False),
    ("convnext", _convnext, _image, False),
    ("resnet50", _resnet50, _image, False),
    ("bert-training", partial(bert, WIDTH, LAYERS), _labelled_tokens, True),
    ("gpt2-training", partial(gpt2, WIDTH, LAYERS), _labelled_tokens, True),
    ("llama-training", partial(llama, WIDTH, LAYERS, 344), _labelled_tokens, True),
)

TASKS = {
    name: ModelTask(name=name, model=model, inputs=inputs, training=training)
    for name, model, inputs, training in _MODELS
}
"""Each task by name: inference of all models, training of three."""
