"""Where each constant lies in ``constants.bin``."""

from collections.abc import Sequence

from attrs import frozen

from wrapperir.ir.program import ConstantInput
from wrapperir.ir.types import storage_extent

ALIGNMENT = 64


@frozen
class ConstantPlace:
    """Bytes of the file, from the first element on; -1 bytes if its size has symbols."""

    begin: int
    bytes: int


def constant_places(constants: Sequence[ConstantInput]) -> list[ConstantPlace]:
    """Return the place of each constant, one after the other."""
    places: list[ConstantPlace] = []
    end = 0
    for constant in constants:
        begin = -(-end // ALIGNMENT) * ALIGNMENT
        extent = storage_extent(constant.type)
        strides = constant.type.stride
        if isinstance(extent, int) and all(isinstance(n, int) for n in strides):
            bytes = extent * constant.type.dtype.itemsize
            end = begin + bytes
        else:
            bytes = -1
        places.append(ConstantPlace(begin, bytes))
    return places
