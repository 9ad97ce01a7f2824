"""Functions that compile to one or a few fused kernels, as users write them.

``inputs`` takes a scale: at 1 most cases have about a million elements.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
import torch.nn.functional as f
from attrs import frozen

Results: TypeAlias = torch.Tensor | tuple[torch.Tensor, ...]
Inputs: TypeAlias = Callable[[int], Sequence[torch.Tensor]]

F32, BF16 = torch.float32, torch.bfloat16
_VOCABULARY = 32000


@frozen
class FusedCase:
    """A function, and its inputs for a scale; it may read a part of some inputs only."""

    name: str
    function: Callable[..., Results]
    inputs: Inputs
    read_in_part: frozenset[int] = frozenset()
    """Inputs of which a call reads only as many bytes as it writes, such as a table."""


def _normal(*size: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.randn(size).to(dtype)


def _below(most: int, *size: int) -> torch.Tensor:
    return torch.randint(0, most, size)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * scale).to(x.dtype) * weight


def _rms_norm_of_sum(
    x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    summed = x + y
    return summed, _rms_norm(summed, weight)


def _layer_norm(
    x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    return f.layer_norm(x + y, (x.shape[-1],), weight, bias)


def _swiglu(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    return f.silu(gate) * up


def _gelu_gradient(x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = torch.ops.aten.gelu_backward.default(gradient, x)
    return found


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


def _rotary_tables(
    places: torch.Tensor, frequencies: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    angles = places[:, None].float() * frequencies[None]
    both = torch.cat((angles, angles), -1)
    return both.cos(), both.sin()


def _causal_softmax(scores: torch.Tensor) -> torch.Tensor:
    length = scores.shape[-1]
    places = torch.arange(length, device=scores.device)
    hidden = places[None, :] > places[:, None]
    return (scores * 0.125).masked_fill(hidden, float("-inf")).softmax(-1)


def _cross_entropy_gradient(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    found = logits.softmax(-1)
    columns = torch.arange(logits.shape[-1], device=logits.device)
    wanted = (columns[None] == targets[:, None]).to(found.dtype)
    return (found - wanted) / logits.shape[0]


def _embedded(
    table: torch.Tensor, index: torch.Tensor, places: torch.Tensor
) -> torch.Tensor:
    return f.layer_norm(table[index] + places, (table.shape[-1],))


def _embedding_gradient(index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(_VOCABULARY, x.shape[-1]).index_add(0, index, x)


def _adam(
    weight: torch.Tensor, gradient: torch.Tensor, mean: torch.Tensor, square: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    mean = mean * 0.9 + gradient * 0.1
    square = square * 0.999 + gradient * gradient * 0.001
    return weight - 1e-3 * mean / (square.sqrt() + 1e-8), mean, square


def _masked_mean(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    kept = mask[..., None].to(x.dtype)
    return (x * kept).sum(1) / kept.sum(1).clamp(min=1e-9)


def _rows(columns: int, count: int = 1, dtype: torch.dtype = F32) -> Inputs:
    """Return inputs of a million elements in rows of a length."""

    def make(scale: int) -> Sequence[torch.Tensor]:
        rows = max(1, scale * 2**20 // columns)
        return [_normal(rows, columns, dtype=dtype) for _ in range(count)]

    return make


def _with_vectors(inputs: Inputs, count: int) -> Inputs:
    """Return the inputs with vectors as long as their rows."""

    def make(scale: int) -> Sequence[torch.Tensor]:
        given = inputs(scale)
        size, dtype = given[0].shape[-1], given[0].dtype
        return [*given, *(_normal(size, dtype=dtype) for _ in range(count))]

    return make


def _squares(scale: int) -> Sequence[torch.Tensor]:
    side = 1024 * int(scale**0.5)
    return [_normal(side, side), _normal(side, side)]


def _heads(scale: int) -> Sequence[torch.Tensor]:
    return [_normal(scale, 16, 1024, 64)]


def _images(scale: int) -> Sequence[torch.Tensor]:
    return [_normal(4 * scale, 64, 64, 64)]


def _logits(scale: int) -> Sequence[torch.Tensor]:
    return [_normal(32 * scale, _VOCABULARY), _below(_VOCABULARY, 32 * scale)]


CASES = (
    FusedCase("softmax, rows of 1024", lambda x: x.softmax(-1), _rows(1024)),
    FusedCase("softmax, rows of 1024, bf16", lambda x: x.softmax(-1), _rows(1024, 1, BF16)),
    FusedCase("softmax, rows of 50257", lambda x: x.softmax(-1), _rows(50257)),
    FusedCase("log softmax, rows of 4096", lambda x: x.log_softmax(-1), _rows(4096)),
    FusedCase(
        "causal softmax of scores",
        _causal_softmax,
        lambda scale: [_normal(scale, 16, 256, 256)],
    ),
    FusedCase("layer norm of a sum", _layer_norm, _with_vectors(_rows(768, 2), 2)),
    FusedCase(
        "layer norm of a sum, bf16", _layer_norm, _with_vectors(_rows(1024, 2, BF16), 2)
    ),
    FusedCase("RMS norm", _rms_norm, _with_vectors(_rows(2048), 1)),
    FusedCase(
        "RMS norm of a sum, bf16",
        _rms_norm_of_sum,
        _with_vectors(_rows(2048, 2, BF16), 1),
    ),
    FusedCase("group norm and SiLU", lambda x: f.silu(f.group_norm(x, 8)), _images),
    FusedCase("statistics of channels", lambda x: torch.var_mean(x, (0, 2, 3)), _images),
    FusedCase("GELU of x + b", lambda x, b: f.gelu(x + b), _with_vectors(_rows(1024), 1)),
    FusedCase(
        "GELU by tanh of x + b, bf16",
        lambda x, b: f.gelu(x + b, approximate="tanh"),
        _with_vectors(_rows(1024, 1, BF16), 1),
    ),
    FusedCase("gradient of GELU", _gelu_gradient, _rows(1024, 2)),
    FusedCase("SwiGLU, bf16", _swiglu, _rows(2048, 1, BF16)),
    FusedCase(
        "rotary embedding",
        _rotated,
        lambda scale: [*_heads(scale), _normal(1024, 64), _normal(1024, 64)],
    ),
    FusedCase(
        "tables of a rotary embedding",
        _rotary_tables,
        lambda scale: [torch.arange(8192 * scale), torch.rand(64)],
    ),
    FusedCase("cross entropy", lambda x, y: f.cross_entropy(x, y), _logits),
    FusedCase("gradient of cross entropy", _cross_entropy_gradient, _logits),
    FusedCase("x + y.t()", lambda x, y: x + y.t(), _squares),
    FusedCase(
        "heads to rows, scaled",
        lambda x: (x * 0.5).transpose(1, 2).reshape(x.shape[0], x.shape[2], -1),
        _heads,
    ),
    FusedCase(
        "cat of three and ReLU",
        lambda x, y, z: f.relu(torch.cat((x, y, z), -1)),
        _rows(512, 3),
    ),
    FusedCase(
        "embedding, sum, layer norm",
        _embedded,
        lambda scale: [
            _normal(_VOCABULARY, 512),
            _below(_VOCABULARY, 2048 * scale),
            _normal(2048 * scale, 512),
        ],
        read_in_part=frozenset({0}),
    ),
    FusedCase(
        "gradient of an embedding",
        _embedding_gradient,
        lambda scale: [_below(_VOCABULARY, 2048 * scale), _normal(2048 * scale, 512)],
    ),
    FusedCase("sum of rows", lambda x: x.sum(-1), _rows(1024)),
    FusedCase("sum of columns", lambda x: x.sum(0), _rows(1024)),
    FusedCase("sum of all, squared", lambda x: (x * x).sum(), _rows(2**20)),
    FusedCase("largest of rows, and where", lambda x: x.max(-1), _rows(4096)),
    FusedCase(
        "moments of short rows",
        lambda x: torch.var_mean(x, -1),
        lambda scale: [_normal(64 * scale, 24)],
    ),
    FusedCase("sums so far, rows of 4096", lambda x: x.cumsum(-1), _rows(4096)),
    FusedCase(
        "mean of what a mask keeps",
        _masked_mean,
        lambda scale: [_normal(16 * scale, 128, 512), _below(2, 16 * scale, 128)],
    ),
    FusedCase(
        "to 8 bits",
        lambda x, s: (x / s).round().clamp(-128, 127).to(torch.int8),
        _with_vectors(_rows(1024), 1),
    ),
    FusedCase(
        "a step of Adam",
        _adam,
        lambda scale: [*_rows(1024, 3)(scale), torch.rand(1024 * scale, 1024)],
    ),
)
"""The cases by which fused kernels are judged."""
