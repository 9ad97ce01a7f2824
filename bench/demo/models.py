"""The models of the demo: real architectures, small sizes, random weights."""

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from bench.model_run import ModelTask, without_dropout

VOCABULARY = 1000
BATCH, LENGTH = 2, 64


def _bert() -> torch.nn.Module:
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=128,
    )
    return BertForMaskedLM(without_dropout(config))


def _gpt2() -> torch.nn.Module:
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=128,
        n_layer=2,
        n_head=4,
        n_positions=128,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    model = GPT2LMHeadModel(without_dropout(config))
    model.loss_type = "ForCausalLM"  # else a warning that this is taken breaks the graph
    return model


def _llama() -> torch.nn.Module:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=344,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        use_cache=False,
    )
    return LlamaForCausalLM(without_dropout(config))


def _tokens() -> dict[str, torch.Tensor]:
    """Return token ids that are also the labels of a language model."""
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    return {"input_ids": tokens, "labels": tokens}


DEMO = (
    ModelTask(name="bert", model=_bert, inputs=_tokens),
    ModelTask(name="gpt2", model=_gpt2, inputs=_tokens),
    ModelTask(name="llama", model=_llama, inputs=_tokens),
    ModelTask(name="gpt2-training", model=_gpt2, inputs=_tokens, training=True),
)
