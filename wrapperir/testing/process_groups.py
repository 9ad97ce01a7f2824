"""Process groups of one rank, on which the programs of the conformance kit run."""

import os
from datetime import timedelta
from typing import Any

from wrapperir.ir import Program

GROUP = "wrapperir.conformance"
"""The group of the kit's programs."""

_TIMEOUT = timedelta(seconds=60)
_made: dict[tuple[int, str], object] = {}
"""The groups, which PyTorch refers to weakly, by process and name.

Those of a process that forked stay, as their end would wait for threads of that process.
"""


def has_groups(program: Program) -> bool:
    """Say whether PyTorch can have the groups of a program, each with one rank."""
    import torch.distributed as distributed

    if not program.groups:
        return True
    one_rank = all(group.size == 1 for group in program.groups)
    return one_rank and distributed.is_available() and distributed.is_gloo_available()


def make_groups(program: Program) -> None:
    """Make the groups of a program that this process does not have, for the CPU.

    A group works with threads, which a fork of the process does not have.
    ``torch.distributed.destroy_process_group`` forgets those that were made before it.
    """
    for group in program.groups:
        key = os.getpid(), group.name
        if key not in _made or not _is_registered(group.name):
            _made[key] = _new_group(group.name)


def _is_registered(name: str) -> bool:
    from torch._C import _distributed_c10d

    c10d: Any = _distributed_c10d
    try:
        c10d._resolve_process_group(name)
    except RuntimeError:
        return False
    return True


def _new_group(name: str) -> object:
    import torch
    from torch._C import _distributed_c10d

    c10d: Any = _distributed_c10d  # its types are not those of the installed release
    store = c10d.HashStore()
    group = c10d.ProcessGroup(store, 0, 1)
    kind = c10d.ProcessGroup.BackendType.GLOO
    backend = c10d.ProcessGroupGloo(store, 0, 1, _TIMEOUT)
    group._register_backend(torch.device("cpu"), kind, backend)
    group._set_default_backend(kind)
    group._set_group_name(name)
    if _is_registered(name):  # by the process that forked
        c10d._unregister_process_group(name)
    c10d._register_process_group(name, group)
    return group
