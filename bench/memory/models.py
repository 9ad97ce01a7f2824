"""The models of the memory table: 12 layers, small widths, random weights."""

from collections.abc import Callable

import torch
import transformers as t

from bench.model_run import ModelTask, without_dropout

VOCABULARY = 1000
BATCH, LENGTH = 4, 64
WIDTH, LAYERS, HEADS = 128, 12, 4

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


def _bert() -> torch.nn.Module:
    config = t.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=128,
    )
    return t.BertForMaskedLM(without_dropout(config))


def _gpt2() -> torch.nn.Module:
    config = t.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        n_positions=128,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    model = t.GPT2LMHeadModel(without_dropout(config))
    model.loss_type = "ForCausalLM"  # else a warning that this is taken breaks the graph
    return model


def _llama() -> torch.nn.Module:
    config = t.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=344,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        max_position_embeddings=128,
        use_cache=False,
    )
    return t.LlamaForCausalLM(without_dropout(config))


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
    ("bert", _bert, _tokens, False),
    ("gpt2", _gpt2, _tokens, False),
    ("llama", _llama, _tokens, False),
    ("t5", _t5, _pair_of_texts, False),
    ("vit", _vit, _image, False),
    ("convnext", _convnext, _image, False),
    ("resnet50", _resnet50, _image, False),
    ("bert-training", _bert, _labelled_tokens, True),
    ("gpt2-training", _gpt2, _labelled_tokens, True),
    ("llama-training", _llama, _labelled_tokens, True),
)

TASKS = {
    name: ModelTask(name=name, model=model, inputs=inputs, training=training)
    for name, model, inputs, training in _MODELS
}
"""Each task by name: inference of all models, training of three."""
