"""Digests of PyTorch's and Triton's files, which keys of PyTorch's caches have.

They take half a second, mostly without Python's lock.  Importing this begins them in the
background, while the rest of Inductor is imported; what needs a digest waits for it.
"""

from torch._inductor import codecache, config


def prefetch_digests() -> None:
    """Begin the digests, unless caches are off or this release makes them when needed."""
    if config.force_disable_caches:
        return
    for name in ("triton_key", "torch_key"):
        begin = getattr(getattr(codecache, name, None), "prefetch", None)
        if callable(begin):
            begin()


prefetch_digests()
