"""The models of the sweep: ten tiny architectures of ``transformers``, random weights."""

from collections.abc import Callable, Mapping, Sequence

import torch
import transformers as t
from attrs import frozen

from bench.model_run import ModelTask, without_dropout

Inputs = dict[str, torch.Tensor]

VOCABULARY = 256
TEXT: Mapping[str, int] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}


@frozen
class Architecture:
    """A model and its inputs; ``trained``: it is run in training too."""

    name: str
    kind: str
    model: Callable[[], torch.nn.Module]
    inputs: Callable[[], Inputs]
    trained: bool = False


def tasks_of(architectures: Sequence[Architecture]) -> dict[str, ModelTask]:
    """Return the tasks by name; those in training end in ``-training``."""
    return {
        name: ModelTask(name=name, model=a.model, inputs=a.inputs, training=training)
        for a in architectures
        for name, training in ((a.name, False), (f"{a.name}-training", True))
        if a.trained or not training
    }


def tokens() -> Inputs:
    """Return token ids that are also the labels of a language model."""
    ids = torch.randint(3, VOCABULARY, (2, 24))
    return {"input_ids": ids, "labels": ids}


def image() -> Inputs:
    """Return two images, of different classes."""
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])}


def _distilbert() -> torch.nn.Module:
    config = t.DistilBertConfig(
        vocab_size=VOCABULARY, dim=64, hidden_dim=128, n_layers=2, n_heads=4
    )
    return t.DistilBertForMaskedLM(without_dropout(config))


def _qwen2() -> torch.nn.Module:
    config = t.Qwen2Config(**TEXT, num_key_value_heads=2, use_cache=False)
    return t.Qwen2ForCausalLM(without_dropout(config))


def _opt() -> torch.nn.Module:
    config = t.OPTConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        word_embed_proj_dim=64,
        ffn_dim=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        use_cache=False,
    )
    return t.OPTForCausalLM(without_dropout(config))


def _t5() -> torch.nn.Module:
    config = t.T5Config(
        vocab_size=VOCABULARY,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        use_cache=False,
    )
    return t.T5ForConditionalGeneration(without_dropout(config))


def _vit() -> torch.nn.Module:
    config = t.ViTConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
    )
    return t.ViTForImageClassification(without_dropout(config))


def _swin() -> torch.nn.Module:
    config = t.SwinConfig(
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    )
    return t.SwinForImageClassification(without_dropout(config))


def _resnet() -> torch.nn.Module:
    config = t.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1])
    return t.ResNetForImageClassification(config)


def _mamba() -> torch.nn.Module:
    config = t.MambaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        state_size=8,
        num_hidden_layers=2,
        use_cache=False,
    )
    return t.MambaForCausalLM(config)


def _mixtral() -> torch.nn.Module:
    config = t.MixtralConfig(
        **TEXT, num_key_value_heads=2, num_local_experts=4, use_cache=False
    )
    return t.MixtralForCausalLM(without_dropout(config))


def _whisper() -> torch.nn.Module:
    config = t.WhisperConfig(
        vocab_size=VOCABULARY,
        num_mel_bins=16,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_source_positions=32,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
    )
    return t.WhisperForConditionalGeneration(without_dropout(config))


def _speech() -> Inputs:
    return {
        "input_features": torch.randn(2, 16, 64),
        "labels": torch.randint(3, VOCABULARY, (2, 12)),
    }


ARCHITECTURES = (
    Architecture("distilbert", "encoder", _distilbert, tokens, trained=True),
    Architecture("qwen2", "decoder", _qwen2, tokens, trained=True),
    Architecture("opt", "decoder", _opt, tokens),
    Architecture("t5", "encoder-decoder", _t5, tokens, trained=True),
    Architecture("vit", "vision", _vit, image, trained=True),
    Architecture("swin", "vision", _swin, image),
    Architecture("resnet", "convolutional", _resnet, image, trained=True),
    Architecture("mamba", "state-space", _mamba, tokens),
    Architecture("mixtral", "mixture of experts", _mixtral, tokens),
    Architecture("whisper", "speech", _whisper, _speech),
)

KINDS = {architecture.name: architecture.kind for architecture in ARCHITECTURES}
ZOO = tasks_of(ARCHITECTURES)
"""Each task by name: every model in inference, half of them in training too."""
