"""Functions whose GPU kernels Inductor writes in each of its ways."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from attrs import field, frozen
from torch._inductor import config
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.fx_emitter import user_kernels

DEVICE = "cuda"
"""Device of the inputs of all cases."""

HALF, BFLOAT = torch.float16, torch.bfloat16
# Not annotated in torch.
grouped_mm: Any = torch._grouped_mm
scaled_mm: Any = torch._scaled_mm


@frozen
class Case:
    """A function, its inputs, and Inductor's settings.

    ``dynamic`` has the inputs and dimensions of changing size.  ``reference`` computes the
    same in eager mode on a CPU, where the function itself cannot.
    """

    function: Callable[..., Any]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    settings: dict[str, Any] = field(factory=dict[str, Any])
    dynamic: tuple[tuple[int, int], ...] = ()
    is_training: bool = False
    reference: Callable[..., Any] | None = None

    def example(self) -> tuple[torch.Tensor, ...]:
        """Return inputs, those that change marked."""
        inputs = self.inputs()
        for index, dim in self.dynamic:
            torch._dynamo.mark_dynamic(inputs[index], dim)
        return inputs

    def known_settings(self) -> dict[str, Any]:
        """Return the settings that this release of Inductor has."""
        known = config.get_config_copy()
        return {key: value for key, value in self.settings.items() if key in known}


def random(*size: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> Any:
    return torch.randn(*size, device=DEVICE, dtype=dtype, requires_grad=grad)


def several(*sizes: tuple[int, ...], **keywords: Any) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(random(*size, **keywords) for size in sizes)


def attention(rows: int = 256, batch: int = 1, grad: bool = False) -> Callable[[], Any]:
    kept = (batch, 2, 512 if rows == 1 else rows, 64)
    return several((batch, 2, rows, 64), kept, kept, dtype=HALF, grad=grad)


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device=DEVICE)
    return flex_attention(q, k, v, block_mask=mask)


def biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> Any:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h] * (i - j))


def scaled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * 2)


def dense_attention(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Attend as GPT-2 does, with the operator that PyTorch chooses on an H100."""
    rows = x.shape[0]
    parts = (x @ w).chunk(3, 1)
    q, k, v = (each.view(1, rows, 4, 16).transpose(1, 2) for each in parts)
    seen = torch.ones(rows, rows, device=x.device, dtype=torch.bool).tril()
    mask = torch.where(seen, 0.0, float("-inf")).to(HALF).expand(1, 4, rows, rows)
    attend: Any = torch.ops.aten._scaled_dot_product_cudnn_attention
    found: torch.Tensor = attend(q, k, v, mask, False)[0]
    return found.transpose(1, 2).reshape(rows, 64) @ w[:, :64]


def normalized(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (768,), weight)


def eight_bits(*size: int) -> Any:
    return random(*size).to(torch.float8_e4m3fn)


TEMPLATES = {
    "max_autotune": True,
    "max_autotune_gemm_backends": "TRITON",
    "max_autotune_conv_backends": "TRITON",
    "test_configs.max_mm_configs": 2,
}
TMA = {
    **TEMPLATES,
    "triton.enable_persistent_tma_matmul": True,
    "test_configs.autotune_choice_name_regex": ".*tma.*",
}
COMBO = {"combo_kernels": True, "benchmark_combo_kernel": False}
DESCRIPTORS = {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True}
MM = several((64, 128), (128, 64))
BMM = several((4, 64, 128), (4, 128, 64))
HALVES = several((256, 128), (128, 256), dtype=HALF)
CONVOLUTION = (2, 16, 32, 32), (32, 16, 3, 3)
ROWS = ((0, 0),)

CASES: dict[str, Case] = {
    "mm, epilogue": Case(lambda x, y: torch.relu(x @ y), MM, TEMPLATES),
    "mm, prologue": Case(
        lambda y, x: (x @ y.to(HALF)) + 1,
        lambda: (
            torch.randint(-8, 8, (128, 64), dtype=torch.int8, device=DEVICE),
            random(64, 128, dtype=HALF),
        ),
        {**TEMPLATES, "prologue_fusion": True},
    ),
    "mm, dynamic": Case(lambda x, y: torch.relu(x @ y), MM, TEMPLATES, ROWS),
    "mm, of a view": Case(lambda x, y: x[8:] @ y, MM, TEMPLATES),
    "mm plus mm": Case(
        lambda a, b, c, d: a @ b + c @ d,
        several((64, 128), (128, 64), (64, 128), (128, 64)),
        TEMPLATES,
    ),
    "mm, hints": Case(
        lambda x, y: x @ y,
        MM,
        {
            **TEMPLATES,
            "benchmark_epilogue_fusion": False,
            "max_autotune_gemm_backends": "ATEN,TRITON",
            "multi_kernel_hints": [64, 256],
        },
        ROWS,
    ),
    "mm, decomposed": Case(
        lambda x, y: (x @ y).relu(),
        several((32, 8192), (8192, 32)),
        {**TEMPLATES, "test_configs.autotune_choice_name_regex": ".*(decompose_k|bmm).*"},
    ),
    "addmm": Case(
        lambda b, x, y: F.gelu(torch.addmm(b, x, y)),
        several((64,), (64, 128), (128, 64)),
        TEMPLATES,
    ),
    "bmm": Case(lambda x, y: torch.bmm(x, y) * 2, BMM, TEMPLATES),
    "bmm, dynamic batch": Case(
        lambda x, y: torch.bmm(x, y) * 2, BMM, TEMPLATES, ((0, 0), (1, 0))
    ),
    "baddbmm": Case(
        torch.baddbmm, several((4, 64, 64), (4, 64, 128), (4, 128, 64)), TEMPLATES
    ),
    "grouped mm": Case(
        lambda a, b, ends: grouped_mm(a, b, offs=ends),
        lambda: (
            random(256, 128, dtype=BFLOAT),
            random(4, 128, 64, dtype=BFLOAT),
            torch.arange(64, 257, 64, dtype=torch.int32, device=DEVICE),
        ),
        TEMPLATES,
    ),
    "scaled mm": Case(
        lambda a, b, s, t: scaled_mm(a, b, s, t, out_dtype=BFLOAT),
        lambda: (
            eight_bits(256, 128),
            eight_bits(256, 128).t(),
            torch.ones((), device=DEVICE),
            torch.ones((), device=DEVICE),
        ),
        TEMPLATES,
    ),
    "mm of integers": Case(
        torch._int_mm,
        lambda: (
            torch.randint(-9, 9, (256, 128), dtype=torch.int8, device=DEVICE),
            torch.randint(-9, 9, (128, 256), dtype=torch.int8, device=DEVICE),
        ),
        TEMPLATES,
    ),
    "tma mm": Case(lambda x, y: torch.relu(x @ y), HALVES, TMA),
    "tma mm, stores": Case(
        lambda x, y: torch.relu(x @ y),
        HALVES,
        {**TMA, "triton.enable_template_tma_store": True},
    ),
    "convolution": Case(
        lambda x, w: F.conv2d(x, w, padding=1).relu(), several(*CONVOLUTION), TEMPLATES
    ),
    "convolution, training": Case(
        lambda x, w: F.conv2d(x, w, padding=1).relu(),
        several(*CONVOLUTION, grad=True),
        TEMPLATES,
        is_training=True,
    ),
    "convolution, 3-D": Case(
        lambda x, w: F.conv3d(x, w, padding=1),
        several((2, 16, 8, 16, 16), (32, 16, 3, 3, 3)),
        TEMPLATES,
    ),
    "linear, training": Case(
        lambda x, w, b: F.linear(x, w, b).relu(),
        several((64, 128), (32, 128), (32,), grad=True),
        TEMPLATES,
        is_training=True,
    ),
    "attention": Case(flex_attention, attention()),
    "attention, dynamic": Case(flex_attention, attention(), {}, ((0, 2), (1, 2), (2, 2))),
    "attention, lengths": Case(
        dense_attention, several((40, 64), (64, 192), dtype=HALF), {}, ROWS
    ),
    "attention, bias": Case(biased, lambda: (*attention()(), random(2))),
    "attention, mask": Case(causal, attention()),
    "attention, decoding": Case(flex_attention, attention(rows=1)),
    "attention, decoding, dynamic batch": Case(
        flex_attention, attention(rows=1, batch=2), {}, ((0, 0), (1, 0), (2, 0))
    ),
    "attention, training": Case(
        scaled,
        attention(grad=True),
        is_training=True,
        reference=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.25),
    ),
    "attention, mask, training": Case(causal, attention(grad=True), is_training=True),
    "split scan": Case(lambda x: torch.cumsum(x, 0), several((1_000_000,))),
    "split scan, rows": Case(lambda x: torch.cumsum(x, 1) + 1, several((2, 500_000))),
    "split scan, dynamic": Case(
        lambda x: torch.cumsum(x, 1) + 1, several((2, 500_000)), {}, ((0, 1),)
    ),
    "split scan, 64 bits": Case(
        lambda x: torch.cumsum(x, 0), several((1_000_000,), dtype=torch.float64)
    ),
    "split scan, small": Case(lambda x: torch.cumsum(x, 0), several((50_000,))),
    "cooperative reduction": Case(
        lambda x: x.sum(),
        several((100, 1000)),
        {"triton.force_cooperative_reductions": True},
    ),
    "combo kernels": Case(
        lambda a, b, c: (a.sin(), b.cos(), c.sum(1)),
        several((100,), (200, 3), (10, 20)),
        COMBO,
    ),
    "combo kernels, dynamic": Case(
        lambda a, b, c: (a.sin(), b.cos(), c.sum(1)),
        several((100,), (200, 3), (10, 20)),
        COMBO,
        ROWS,
    ),
    "index": Case(
        lambda x, at: x[at],
        lambda: (random(10, 4), torch.randint(0, 10, (20,), device=DEVICE)),
    ),
    "precise casts": Case(
        lambda x: x.sin() * 2 + x,
        several((64, 64), dtype=HALF),
        {"emulate_precision_casts": True},
    ),
    "foreach": Case(
        lambda a, b: torch._foreach_add([a, b], 1),
        several((100,), (200, 3)),
    ),
    "block pointers": Case(
        lambda y, x: torch.softmax(x + y.t(), 1),
        several((96, 64), (64, 96)),
        {"triton.use_block_ptr": True},
    ),
    "tensor descriptors": Case(
        lambda y, x: x + y.t(), several((1024, 64), (64, 1024)), DESCRIPTORS
    ),
    "tensor descriptors, reduction": Case(
        lambda x: x.sum(1), several((64, 1024)), DESCRIPTORS
    ),
    "multi-kernel": Case(
        lambda x: torch.softmax(x, -1), several((64, 1024)), {"triton.multi_kernel": 1}
    ),
    "user kernel, epilogue": Case(
        lambda x, y: user_kernels.add(x, y).relu() * 2,
        several((64,), (64,)),
        {"epilogue_fusion_user_defined_triton_kernel": True},
        reference=lambda x, y: (x + y).relu() * 2,
    ),
    "user kernel, grid of another size": Case(user_kernels.count, several((40,)), {}, ROWS),
    "mix-order reduction": Case(
        normalized, several((32768, 768), (768,), grad=True), is_training=True
    ),
    "mix-order reduction, half precision": Case(
        lambda x, w, b: F.layer_norm(x, (768,), w, b),
        several((32768, 768), (768,), (768,), dtype=BFLOAT, grad=True),
        is_training=True,
    ),
    "mix-order reduction, small": Case(
        lambda x, w: F.rms_norm(x, (48,), w),
        several((72, 48), (48,), grad=True),
        {"triton.mix_order_reduction_non_strict_mode": True},
        is_training=True,
    ),
    "mix-order reduction, small, half precision": Case(
        lambda x, w: F.rms_norm(x, (48,), w) * 2,
        several((72, 48), (48,), dtype=HALF, grad=True),
        {"triton.mix_order_reduction_non_strict_mode": True},
        is_training=True,
    ),
    "mix-order reduction, dynamic": Case(
        normalized,
        several((32768, 768), (768,), grad=True),
        dynamic=ROWS,
        is_training=True,
    ),
}
