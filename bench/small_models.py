"""Language models with random weights whose width and layers a benchmark chooses."""

import torch
import transformers as t

from bench.model_run import without_dropout

VOCABULARY, HEADS, POSITIONS = 1000, 4, 128


def bert(width: int, layers: int) -> torch.nn.Module:
    """Return a BERT that predicts masked words."""
    config = t.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        intermediate_size=4 * width,
        max_position_embeddings=POSITIONS,
    )
    model: torch.nn.Module = t.BertForMaskedLM(without_dropout(config))
    return model


def gpt2(width: int, layers: int) -> torch.nn.Module:
    """Return a GPT-2."""
    config = t.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=width,
        n_layer=layers,
        n_head=HEADS,
        n_positions=POSITIONS,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    model = t.GPT2LMHeadModel(without_dropout(config))
    model.loss_type = "ForCausalLM"  # else a warning that this is taken breaks the graph
    made: torch.nn.Module = model
    return made


def llama(width: int, layers: int, inner: int) -> torch.nn.Module:
    """Return a Llama whose inner layers have width ``inner``."""
    config = t.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        use_cache=False,
    )
    model: torch.nn.Module = t.LlamaForCausalLM(without_dropout(config))
    return model
