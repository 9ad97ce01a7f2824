"""Descriptions of machines: how fast a rank computes, and how fast ranks exchange bytes."""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve, frozen

from wrapperir.ir import DType


@frozen(kw_only=True)
class Protocol:
    """A way to send along a ring or a tree of ranks.

    ``start`` are the seconds before the first step; a step takes ``within`` seconds in a
    host and ``between`` from host to host.  It reaches the ``share`` of the bandwidth.
    """

    name: str
    start: float
    within: float
    between: float
    share: float


@frozen(kw_only=True)
class Link:
    """The bytes a second that a rank sends in one direction.

    ``within`` is for ranks of one host, ``between`` for its adapter to other hosts.
    """

    within: float
    between: float


@frozen(kw_only=True)
class Machine:
    """What a rank computes with, and how ranks are linked.

    ``products`` are operations a second of matrix products, by dtype; ``other_products``
    are those of other dtypes.  ``memory`` are bytes a second.  ``reached`` is the fraction
    of both that kernels reach, and ``linked`` that of the links.  A kernel takes ``launch``
    seconds at least.  A host has ``host_ranks`` ranks.  Where ``is_filled``, a kernel takes
    all processors: a collective gets some when the next kernel ends, not while it runs.
    """

    name: str
    products: Mapping[DType, float]
    other_products: float
    memory: float
    reached: float
    launch: float
    host_ranks: int
    link: Link
    linked: float
    rings: tuple[Protocol, ...]
    trees: tuple[Protocol, ...]
    is_filled: bool


# NCCL, src/graph/tuning.cc: baseLat and hwLat of NVLink and of the network, and the shares
# of a bandwidth that protocols reach.
_NCCL_RINGS = (
    Protocol(name="LL", start=6.6e-6, within=0.6e-6, between=2.7e-6, share=0.25),
    Protocol(name="LL128", start=14e-6, within=1.9e-6, between=4.0e-6, share=0.92),
    Protocol(name="Simple", start=8.4e-6, within=3.4e-6, between=14e-6, share=1.0),
)
_NCCL_TREES = (
    Protocol(name="LL", start=6.8e-6, within=0.6e-6, between=5.0e-6, share=0.24),
    Protocol(name="LL128", start=14e-6, within=1.25e-6, between=8.5e-6, share=0.78),
)

_HALF = (DType.F16, DType.BF16)

H100 = Machine(
    name="h100",
    products={**dict.fromkeys(_HALF, 989e12), DType.F32: 67e12, DType.F64: 67e12},
    other_products=67e12,
    memory=3.35e12,
    reached=0.7,
    launch=3e-6,
    host_ranks=8,
    link=Link(within=450e9, between=50e9),
    linked=0.5,
    rings=_NCCL_RINGS,
    trees=_NCCL_TREES,
    is_filled=True,
)
"""DGX H100: datasheet of the H100 SXM (dense), NVLink 4, a 400 Gb/s adapter for a GPU."""

A100 = evolve(
    H100,
    name="a100",
    products={**dict.fromkeys(_HALF, 312e12), DType.F32: 19.5e12, DType.F64: 19.5e12},
    other_products=19.5e12,
    memory=2.039e12,
    link=Link(within=300e9, between=25e9),
)
"""DGX A100: datasheet of the A100 80 GB SXM, NVLink 3, a 200 Gb/s adapter for a GPU."""

CPU = Machine(
    name="cpu",
    products={},
    other_products=50e9,
    memory=10e9,
    reached=1.0,
    launch=2e-6,
    host_ranks=64,
    link=Link(within=2e9, between=1e9),
    linked=1.0,
    rings=(Protocol(name="gloo", start=50e-6, within=30e-6, between=60e-6, share=1.0),),
    trees=(),
    is_filled=False,
)
"""One core and gloo over TCP; assumed, so that work is moved there as on a GPU."""

MACHINES: Mapping[str, Machine] = MappingProxyType(
    {machine.name: machine for machine in (H100, A100, CPU)}
)
"""The machines by name."""


def machine_of(device_kind: str) -> Machine:
    """Return the machine that is assumed for devices of a kind."""
    return CPU if device_kind == "cpu" else H100
