"""Seconds of collectives, by the formulas that NCCL chooses its algorithms with.

A collective of ``n`` ranks takes its steps times the latency of a step, and its bytes over
the bandwidth (Hockney, 1994).  The steps and bytes of rings are those of Thakur,
Rabenseifner and Gropp, *Optimization of Collective Communication Operations in MPICH*,
2005; those of trees, and the latencies, of NCCL (``src/graph/tuning.cc``).
"""

import math

from wrapperir.analysis.machines import Machine, Protocol
from wrapperir.ir import Collective


def collective_seconds(
    operation: Collective,
    bytes: int,
    ranks: int,
    machine: Machine,
    host_ranks: int | None = None,
) -> float:
    """Return the seconds of a collective that no other work slows down.

    ``bytes`` are those of the whole tensor: of what a rank reduces or scatters, or of what
    it has gathered.  ``host_ranks`` are the ranks of the group that a host has at most; by
    default, groups fill hosts.
    """
    if ranks < 2:
        return machine.launch
    within = min(ranks, machine.host_ranks if host_ranks is None else host_ranks)
    hosts = -(-ranks // within)
    link = machine.link.within
    if hosts > 1:  # rings leave a host through the adapters of all its ranks
        link = min(link, machine.link.between * within)
    bandwidth = link * machine.linked
    found = [
        _ring(operation, ranks, hosts, each)
        + _moved(operation, ranks) * bytes / (bandwidth * each.share)
        for each in machine.rings
    ]
    if operation is Collective.ALL_REDUCE:
        found += [
            _tree(within, hosts, each) + 2 * bytes / (bandwidth * each.share)
            for each in machine.trees
        ]
    return min(found)


def _ring(operation: Collective, ranks: int, hosts: int, protocol: Protocol) -> float:
    """Return the latency of a ring: one of its steps for each host goes to another."""
    if operation.is_pairwise:
        step = protocol.within if hosts == 1 else protocol.between
        return protocol.start + step
    rounds = 2 if operation is Collective.ALL_REDUCE else 1
    steps = rounds * (ranks - 1)
    between = min(rounds * hosts, steps) if hosts > 1 else 0
    return protocol.start + (steps - between) * protocol.within + between * protocol.between


def _tree(within: int, hosts: int, protocol: Protocol) -> float:
    """Return the latency of a chain in each host and a double binary tree of hosts."""
    steps = (within - 1) * protocol.within + math.log2(hosts) * protocol.between
    return protocol.start + 2 * steps


def _moved(operation: Collective, ranks: int) -> float:
    """Return how often a rank sends the bytes."""
    if operation is Collective.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    if operation.is_pairwise or operation is Collective.BROADCAST:
        return 1.0
    return (ranks - 1) / ranks
