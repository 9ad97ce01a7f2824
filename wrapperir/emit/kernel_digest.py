"""A digest of what a kernel is, whatever its name."""

import hashlib

from attrs import evolve

from wrapperir.ir import KernelDefinitionLine


def kernel_digest(line: KernelDefinitionLine) -> str:
    """Return the SHA-256 of all of a definition but its name and where it is from.

    That is its language, source, entry, parameters, constants, configs, grid and metadata:
    what decides how fast it is, beside its arguments and the machine.
    """
    told = repr(evolve(line, name="", provenance=None))
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
