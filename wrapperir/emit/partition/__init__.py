"""Programs cut into parts for two emitters, and the plan that runs them."""

from wrapperir.emit.partition.compile import Partition, lacks_something, partition_program
from wrapperir.emit.partition.emitter import PartitioningEmitter
from wrapperir.emit.partition.obstacles import is_refusal
from wrapperir.emit.partition.report import (
    PartitionReport,
    format_partition,
    log_partition,
)

__all__ = [
    "Partition",
    "PartitionReport",
    "PartitioningEmitter",
    "format_partition",
    "is_refusal",
    "lacks_something",
    "log_partition",
    "partition_program",
]
