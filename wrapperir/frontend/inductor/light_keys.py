"""PyTorch's keys of graphs, made without the modules that compile graphs.

For the passes of back ends, which are part of a key, PyTorch imports all back ends.  Its
own have none; those that others registered are known without the import.  The context
changes the keys, so it is entered wherever one is made.
"""

import contextlib
from collections.abc import Callable, Generator, Mapping
from typing import Any

import torch
from torch._inductor import codecache

from wrapperir.frontend.inductor.shared_patch import SharedPatch


def _register_others(register: Callable[[], None]) -> Callable[[], None]:
    """Return what registers the back end of a device that PyTorch does not know itself."""
    kind: str = torch._C._get_privateuse1_backend_name()
    return register if kind != "privateuseone" else lambda: None


def _only_passes(passes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the passes by device, without devices that have none."""
    return {device: found for device, found in passes.items() if found is not None}


_registering_others = SharedPatch(codecache, "init_backend_registration", _register_others)
_passes_alone = SharedPatch(codecache, "custom_backend_passes", _only_passes)


@contextlib.contextmanager
def light_keys() -> Generator[None]:
    """Have keys made without what PyTorch registers for its own devices."""
    with _registering_others, _passes_alone:
        yield
