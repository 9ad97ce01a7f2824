"""Models that are bound by launches on a GPU, with random weights and inputs."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, TypeAlias

import torch
from attrs import frozen

DEVICE = torch.device("cuda", 0)

Function: TypeAlias = Callable[..., Any]
Inputs: TypeAlias = tuple[torch.Tensor, ...]


@frozen(kw_only=True)
class Prepared:
    """A function, the inputs of its calls, which take turns, and what it trains."""

    function: Function
    inputs: Sequence[Inputs]
    parameters: Sequence[torch.nn.Parameter] = ()


@frozen(kw_only=True)
class Workload:
    """What is run on a GPU.

    In ``training``, a call is followed by the backward pass of the number it returns.
    Inputs of ``dynamic`` workloads differ in their first dimension.  ``needs`` are the
    packages that ``prepare`` imports.
    """

    name: str
    title: str
    prepare: Callable[[], Prepared]
    needs: tuple[str, ...] = ()
    training: bool = False
    dynamic: bool = False

    def missing(self) -> list[str]:
        """Return the needed packages that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


def _gpt2(dtype: torch.dtype, **changes: object) -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    from bench.model_run import without_dropout

    config = without_dropout(GPT2Config(use_cache=False, **changes))
    return GPT2LMHeadModel(config).to(DEVICE, dtype).eval()


def _tokens(batch: int, length: int, vocabulary: int = 50257) -> torch.Tensor:
    return torch.randint(0, vocabulary, (batch, length), device=DEVICE)


def _gpt2_inference() -> Prepared:
    model = _gpt2(torch.float16)
    return Prepared(
        function=lambda tokens: model(input_ids=tokens).logits, inputs=[(_tokens(1, 64),)]
    )


def _gpt2_lengths() -> Prepared:
    model = _gpt2(torch.float16)
    return Prepared(
        function=lambda tokens: model(input_ids=tokens.unsqueeze(0)).logits,
        inputs=[(_tokens(length, 1).squeeze(1),) for length in (40, 48, 56, 64)],
    )


def _gpt2_training() -> Prepared:
    model = _gpt2(torch.bfloat16).train()

    def loss(tokens: torch.Tensor) -> torch.Tensor:
        logits = model(input_ids=tokens).logits
        targets = tokens[:, 1:].flatten()
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), targets)

    return Prepared(
        function=loss, inputs=[(_tokens(4, 256),)], parameters=list(model.parameters())
    )


def _bert() -> Prepared:
    from transformers import BertConfig, BertModel

    from bench.model_run import without_dropout

    model = BertModel(without_dropout(BertConfig())).to(DEVICE, torch.float16).eval()
    tokens = _tokens(16, 128, 30522)
    return Prepared(
        function=lambda ids: model(input_ids=ids).last_hidden_state, inputs=[(tokens,)]
    )


def _resnet() -> Prepared:
    from torchvision.models import resnet50

    model = resnet50().to(DEVICE, torch.float16).eval()
    model = model.to(memory_format=torch.channels_last)
    image = torch.randn(1, 3, 224, 224, device=DEVICE, dtype=torch.float16)
    image = image.to(memory_format=torch.channels_last)
    return Prepared(function=model, inputs=[(image,)])


def _decoding() -> Prepared:
    """Return one step of a small Llama that writes to a cache of 256 positions."""
    width, heads, layers, positions = 512, 8, 8, 256
    size = width // heads

    class Layer(torch.nn.Module):
        keys: torch.Tensor
        values: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(width) for _ in range(2))
            self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
            self.out = torch.nn.Linear(width, width, bias=False)
            self.up = torch.nn.Linear(width, 8 * width // 3 * 2, bias=False)
            self.down = torch.nn.Linear(8 * width // 3, width, bias=False)
            for name in ("keys", "values"):
                self.register_buffer(name, torch.zeros(1, heads, positions, size))

        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(self.norms[0](x)).view(1, 1, 3, heads, size).unbind(2)
            self.keys.index_copy_(2, at, k.transpose(1, 2))
            self.values.index_copy_(2, at, v.transpose(1, 2))
            seen = torch.arange(positions, device=x.device) <= at
            scores = q.transpose(1, 2) @ self.keys.transpose(2, 3) / size**0.5
            weights = torch.where(seen, scores, float("-inf")).softmax(-1)
            x = x + self.out((weights @ self.values).transpose(1, 2).reshape(1, 1, width))
            gate, up = self.up(self.norms[1](x)).chunk(2, -1)
            return x + self.down(torch.nn.functional.silu(gate) * up)

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(1000, width)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(layers))

        def forward(self, token: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            x = self.embedding(token)
            for layer in self.layers:
                x = layer(x, at)
            return x @ self.embedding.weight.T

    model = Decoder().to(DEVICE, torch.float16).eval()
    steps = [
        (_tokens(1, 1, 1000), torch.tensor([at], device=DEVICE)) for at in (3, 4, 5, 6)
    ]
    return Prepared(function=model, inputs=steps)


def _square() -> torch.Tensor:
    return torch.rand(64, 64, device=DEVICE) / 8


def _softmaxes() -> Prepared:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for step in range(100):
            x = torch.softmax(x, step % 2)
        return x

    return Prepared(function=chain, inputs=[(_square(),)])


def _products() -> Prepared:
    def chain(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for _ in range(100):
            x = torch.relu(torch.mm(x, w) + b)
        return x

    w = torch.randn(64, 64, device=DEVICE) / 8  # with which numbers neither grow nor vanish
    return Prepared(function=chain, inputs=[(_square(), w, _square())])


WORKLOADS = (
    Workload(
        name="gpt2",
        title="GPT-2 small, 1×64, fp16",
        prepare=_gpt2_inference,
        needs=("transformers",),
    ),
    Workload(
        name="bert",
        title="BERT base, 16×128, fp16",
        prepare=_bert,
        needs=("transformers",),
    ),
    Workload(
        name="resnet",
        title="ResNet-50, batch 1, channels last, fp16",
        prepare=_resnet,
        needs=("torchvision",),
    ),
    Workload(
        name="training",
        title="GPT-2 small, a training step of 4×256, bf16",
        prepare=_gpt2_training,
        needs=("transformers",),
        training=True,
    ),
    Workload(
        name="decoding",
        title="a decode step of a Llama with a cache, 8 layers of 512, fp16",
        prepare=_decoding,
    ),
    Workload(
        name="lengths",
        title="GPT-2 small, lengths 40, 48, 56 and 64 in turn, fp16",
        prepare=_gpt2_lengths,
        needs=("transformers",),
        dynamic=True,
    ),
    Workload(name="softmaxes", title="100 softmaxes of 64×64", prepare=_softmaxes),
    Workload(name="products", title="100 × (64×64 product, add, relu)", prepare=_products),
)
