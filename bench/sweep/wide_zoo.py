"""The models of the sweep on a GPU: those of the other sweep, and more architectures."""

from functools import partial

import torch
import transformers as t

from bench.model_run import without_dropout
from bench.small_models import bert, gpt2, llama
from bench.sweep.model_zoo import (
    ARCHITECTURES,
    TEXT,
    VOCABULARY,
    Architecture,
    Inputs,
    image,
    tasks_of,
    tokens,
)

CONVOLUTIONS = {"hidden_sizes": [16, 32], "depths": [1, 1]}


def _few_tokens() -> Inputs:
    """Return inputs of a model that takes one token after the other."""
    return {name: value[:, :6] for name, value in tokens().items()}


def _large_image() -> Inputs:
    return {"pixel_values": torch.randn(2, 3, 64, 64)}


def _wave() -> Inputs:
    return {"input_values": torch.randn(2, 800)}


def _text_and_image() -> Inputs:
    ids = torch.randint(3, VOCABULARY - 1, (2, 12))
    ids[:, -1] = VOCABULARY - 1  # the end of the text, which CLIP looks for
    return {"input_ids": ids, "pixel_values": torch.randn(2, 3, 32, 32)}


def _modernbert() -> torch.nn.Module:
    config = t.ModernBertConfig(
        **TEXT,
        global_attn_every_n_layers=2,
        local_attention=8,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    )
    return t.ModernBertForMaskedLM(without_dropout(config))


def _deberta() -> torch.nn.Module:
    config = t.DebertaV2Config(
        **TEXT,
        relative_attention=True,
        position_buckets=8,
        max_relative_positions=16,
        pos_att_type=["p2c", "c2p"],
    )
    return t.DebertaV2ForMaskedLM(without_dropout(config))


def _gemma2() -> torch.nn.Module:
    config = t.Gemma2Config(
        **TEXT, num_key_value_heads=2, head_dim=16, sliding_window=8, use_cache=False
    )
    return t.Gemma2ForCausalLM(without_dropout(config))


def _phi() -> torch.nn.Module:
    config = t.PhiConfig(**TEXT, use_cache=False)
    return t.PhiForCausalLM(without_dropout(config))


def _falcon() -> torch.nn.Module:
    config = t.FalconConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        use_cache=False,
    )
    return t.FalconForCausalLM(without_dropout(config))


def _bart() -> torch.nn.Module:
    config = t.BartConfig(
        vocab_size=VOCABULARY,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_position_embeddings=64,
        use_cache=False,
    )
    return t.BartForConditionalGeneration(without_dropout(config))


def _convnext() -> torch.nn.Module:
    config = t.ConvNextConfig(num_stages=2, patch_size=4, **CONVOLUTIONS)
    return t.ConvNextForImageClassification(without_dropout(config))


def _mobilenet() -> torch.nn.Module:
    config = t.MobileNetV2Config(image_size=32, depth_multiplier=0.25, output_stride=8)
    return t.MobileNetV2ForImageClassification(without_dropout(config))


def _segformer() -> torch.nn.Module:
    config = t.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[16, 32],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=32,
    )
    return t.SegformerForSemanticSegmentation(without_dropout(config))


def _detr() -> torch.nn.Module:
    config = t.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=t.ResNetConfig(
            embedding_size=16, out_features=["stage2"], **CONVOLUTIONS
        ),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_queries=8,
    )
    return t.DetrForObjectDetection(without_dropout(config))


def _swin2sr() -> torch.nn.Module:
    config = t.Swin2SRConfig(
        image_size=16,
        embed_dim=16,
        depths=[2],
        num_heads=[2],
        window_size=4,
        upscale=2,
    )
    return t.Swin2SRForImageSuperResolution(without_dropout(config))


def _small_image() -> Inputs:
    return {"pixel_values": torch.randn(1, 3, 16, 16)}


def _clip() -> torch.nn.Module:
    text = {**TEXT, "eos_token_id": VOCABULARY - 1, "projection_dim": 32}
    vision = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 32,
        "patch_size": 8,
        "projection_dim": 32,
    }
    config = t.CLIPConfig(text_config=text, vision_config=vision, projection_dim=32)
    return t.CLIPModel(config)


def _wav2vec2() -> torch.nn.Module:
    config = t.Wav2Vec2Config(
        vocab_size=32,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        conv_dim=[16, 16],
        conv_stride=[5, 4],
        conv_kernel=[10, 8],
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        apply_spec_augment=False,
    )
    return t.Wav2Vec2ForCTC(without_dropout(config))


def _mamba2() -> torch.nn.Module:
    config = t.Mamba2Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_heads=8,
        head_dim=16,
        state_size=8,
        n_groups=1,
        chunk_size=8,
        num_hidden_layers=2,
        use_cache=False,
    )
    return t.Mamba2ForCausalLM(config)


def _rwkv() -> torch.nn.Module:
    config = t.RwkvConfig(
        vocab_size=VOCABULARY,
        context_length=32,
        hidden_size=64,
        num_hidden_layers=2,
        use_cache=False,
    )
    return t.RwkvForCausalLM(config)


def _deepseek() -> torch.nn.Module:
    config = t.DeepseekV3Config(
        **TEXT,
        num_key_value_heads=4,
        moe_intermediate_size=32,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=16,
        use_cache=False,
    )
    return t.DeepseekV3ForCausalLM(without_dropout(config))


def _fnet() -> torch.nn.Module:
    config = t.FNetConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        max_position_embeddings=64,
    )
    return t.FNetForMaskedLM(without_dropout(config))


WIDE = (
    *ARCHITECTURES,
    Architecture("bert", "encoder", partial(bert, 64, 2), tokens, trained=True),
    Architecture("modernbert", "encoder", _modernbert, tokens, trained=True),
    Architecture("deberta", "encoder", _deberta, tokens),
    Architecture("fnet", "Fourier transforms", _fnet, tokens),
    Architecture("gpt2", "decoder", partial(gpt2, 64, 2), tokens, trained=True),
    Architecture("llama", "decoder", partial(llama, 64, 2, 128), tokens),
    Architecture("gemma2", "decoder", _gemma2, tokens, trained=True),
    Architecture("phi", "decoder", _phi, tokens, trained=True),
    Architecture("falcon", "decoder", _falcon, tokens),
    Architecture("bart", "encoder-decoder", _bart, tokens, trained=True),
    Architecture("deepseek", "mixture of experts", _deepseek, tokens),
    Architecture("mamba2", "state-space", _mamba2, tokens),
    Architecture("rwkv", "recurrent", _rwkv, _few_tokens),
    Architecture("convnext", "convolutional", _convnext, image, trained=True),
    Architecture("mobilenet", "convolutional", _mobilenet, image),
    Architecture("segformer", "segmentation", _segformer, _large_image, trained=True),
    Architecture("detr", "detection", _detr, _large_image),
    Architecture("swin2sr", "super-resolution", _swin2sr, _small_image),
    Architecture("clip", "text and images", _clip, _text_and_image, trained=True),
    Architecture("wav2vec2", "speech", _wav2vec2, _wave, trained=True),
)
WIDE_KINDS = {architecture.name: architecture.kind for architecture in WIDE}
WIDE_ZOO = tasks_of(WIDE)
"""Each task by name: every model in inference, half of them in training too."""
