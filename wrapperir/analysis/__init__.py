"""Facts about a program's memory: storages, live ranges, bytes and the order of streams."""

from wrapperir.analysis.footprint import DeviceFootprint, Dimension, Footprint, Footprints
from wrapperir.analysis.live_bytes import BlockMemory, ProgramMemory, analyze_memory
from wrapperir.analysis.sizes import (
    STATIC,
    UNIT,
    Sizes,
    Unit,
    fits,
    storage_bytes,
    units_over,
)
from wrapperir.analysis.storages import (
    BlockStorages,
    Body,
    Entry,
    Storage,
    StorageKind,
    block_entry,
    find_storages,
    program_entry,
    rewrite_bodies,
)
from wrapperir.analysis.stream_order import StreamOrder, order_streams

__all__ = [
    "STATIC",
    "UNIT",
    "BlockMemory",
    "BlockStorages",
    "Body",
    "DeviceFootprint",
    "Dimension",
    "Entry",
    "Footprint",
    "Footprints",
    "ProgramMemory",
    "Sizes",
    "Storage",
    "StorageKind",
    "StreamOrder",
    "Unit",
    "analyze_memory",
    "block_entry",
    "find_storages",
    "fits",
    "order_streams",
    "program_entry",
    "rewrite_bodies",
    "storage_bytes",
    "units_over",
]
