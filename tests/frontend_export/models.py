"""Modules that the export frontend is held against, with inputs for each."""
# mypy: disable-error-code="no-untyped-call, no-any-return, arg-type"

from typing import Any

import torch
from attrs import field, frozen
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

F = nn.functional


@frozen
class Case:
    """A module, example inputs, what is dynamic, and further inputs to run it on."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(factory=dict[str, Any])
    dynamic: Any = None
    more: tuple[tuple[Any, ...], ...] = ()


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 4)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.layers(x), dim=-1)


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        y = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return y.flatten(1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(b, s, 16))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        y, state = self.lstm(x)
        return y, state


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 6, padding_idx=0)
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)
        self.offset = torch.arange(6.0)

    def forward(self, ids: Tensor) -> Tensor:
        assert isinstance(self.scale, Tensor)
        return self.table(ids) * self.scale + self.offset + torch.tensor([0.5])


class Mutating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("cache", torch.zeros(4, 3))

    def forward(self, x: Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(self.count, Tensor)
        assert isinstance(self.cache, Tensor)
        self.count += 1
        self.cache[1:3].mul_(2)
        self.cache.index_put_((slot,), x)
        x.add_(1)
        return self.cache.sum(0), self.count * 2


class ManyOutputs(nn.Module):
    def forward(
        self, x: Tensor, n: int, *, flag: bool = True
    ) -> dict[str, tuple[Any, ...] | Tensor | None]:
        values, indices = x.max(dim=1)
        a, b = x.split([2, 4], dim=1)
        c = x.chunk(3, dim=1)
        first, *_ = torch.unbind(x, 1)
        return {
            "tuple": (values, indices, x.shape[0] + n, None, 2.5, flag),
            "views": (a, b, c[1], first, x.t(), x[None, :, ::2], x.detach()),
            "again": values,
            "none": None,
        }


class Views(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = x.expand(2, 4, 6)
        return (
            x.view(6, 4),
            x.t().reshape(24),
            x.contiguous(),
            x.select(0, 1),
            x.as_strided((2, 2), (6, 2), 1),
            y.squeeze().transpose(0, 2),
            x.unfold(1, 2, 2).diagonal(0, 0, 2),
            x.to(torch.float32),
            x.to(torch.float64),
            x.view(torch.int32),
            torch.view_as_real(torch.view_as_complex(x.view(4, 3, 2))),
            torch.view_as_complex(x.view(4, 3, 2)).conj(),
            torch.einsum("ij->ji", x),
            torch.atleast_1d(x),
            torch.movedim(x, 0, 1).flatten(),
        )


class Conditional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def positive(x: Tensor, y: Tensor) -> Tensor:
            return self.linear(x) + y

        def negative(x: Tensor, y: Tensor) -> Tensor:
            return x.cos() - y.sum()

        z = torch.cond(x.sum() > 0, positive, negative, (x, x + 1))
        w = torch.cond(x.shape[0] > 4, lambda x: x * 2, lambda x: x * 3, (x,))
        return z, w


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        def condition(i: Tensor, _: Tensor, __: Tensor) -> Tensor:
            return i < 5

        def body(i: Tensor, x: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return i + 1, self.linear(x).sin() + kept, kept.clone()

        return while_loop(condition, body, (torch.tensor(0), x, x * 2))


class NoGrad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            y = self.linear(x)
        return y, y + self.linear(x)


class DataDependent(nn.Module):
    def forward(self, x: Tensor, i: Tensor, b: Tensor) -> tuple[Any, ...]:
        n = i.item()
        torch._check(n >= 2)
        torch._check(n <= 10)
        found = x.nonzero()
        picked = x[x > 0]
        values, counts = torch.unique(x.round(), return_counts=True)
        return (
            torch.zeros(n) + b.item(),
            found,
            found.shape[0] * 2,
            x[found[:, 0]],
            picked,
            values,
            counts + 1,
        )


class Dynamic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Any, ...]:
        z = torch.cat([x, y[::2]], dim=0)
        pooled = F.pad(self.linear(z), (0, 1)).view(-1, 7)
        return pooled[: x.shape[0]], z.numel() // 3, x.shape[0] * y.shape[0]


BATCH = Dim("batch", min=2, max=64)


def cases() -> dict[str, Case]:
    """Return the modules by name, with weights from a fixed seed."""
    torch.manual_seed(0)
    return {
        "mlp": Case(
            Mlp().eval(),
            (torch.randn(3, 8),),
            {},
            {"x": {0: BATCH}},
            ((torch.randn(9, 8),),),
        ),
        "convolution": Case(Convolution().eval(), (torch.randn(2, 3, 8, 8),)),
        "batch_norm_training": Case(Convolution().train(), (torch.randn(2, 3, 8, 8),)),
        "attention": Case(
            Attention(),
            (torch.randn(2, 5, 16), None),
            {},
            {"x": {0: BATCH, 1: Dim("length", min=2, max=32)}, "mask": None},
            ((torch.randn(4, 7, 16), None),),
        ),
        "attention_mask": Case(
            Attention(), (torch.randn(2, 5, 16),), {"mask": torch.randn(5, 5)}
        ),
        "recurrent": Case(Recurrent(), (torch.randn(2, 4, 6),)),
        "embedding": Case(
            Embedding(),
            (torch.tensor([[1, 2, 0], [9, 3, 3]]),),
            {},
            {"ids": {0: BATCH}},
            ((torch.zeros(5, 3, dtype=torch.int64),),),
        ),
        "mutating": Case(Mutating(), (torch.randn(2, 3), torch.tensor([0, 2]))),
        "many_outputs": Case(
            ManyOutputs(),
            (torch.randn(4, 6), 3),
            {"flag": False},
            {"x": {0: BATCH}, "n": None, "flag": None},
            ((torch.randn(7, 6), 3),),
        ),
        "views": Case(Views(), (torch.randn(4, 6),)),
        "conditional": Case(
            Conditional(),
            (torch.randn(3, 4),),
            {},
            {"x": {0: BATCH}},
            ((torch.ones(6, 4),), (-torch.ones(2, 4),)),
        ),
        "loop": Case(
            Loop(), (torch.randn(3, 4),), {}, {"x": {0: BATCH}}, ((torch.randn(5, 4),),)
        ),
        "no_grad": Case(NoGrad(), (torch.randn(3, 4),)),
        "data_dependent": Case(
            DataDependent(),
            (torch.randn(3, 4), torch.tensor(4), torch.tensor(1.5)),
            {},
            None,
            ((torch.zeros(3, 4), torch.tensor(2), torch.tensor(0.0)),),
        ),
        "dynamic": Case(
            Dynamic(),
            (torch.randn(4, 6), torch.randn(8, 6)),
            {},
            {"x": {0: BATCH}, "y": {0: 2 * BATCH}},
            ((torch.randn(7, 6), torch.randn(14, 6)),),
        ),
        "dynamic_multiple": Case(
            Mlp().eval(),
            (torch.randn(4, 8),),
            {},
            {"x": {0: 2 * BATCH}},
            ((torch.randn(10, 8),),),
        ),
        "non_contiguous": Case(Mlp().eval(), (torch.randn(8, 3).t(),)),
    }
