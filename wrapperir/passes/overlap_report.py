"""The decisions of ``overlap_collectives``, as data."""

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.analysis.machines import Machine


@frozen(kw_only=True)
class OverlappedCollective:
    """What was decided for one collective, which line ``index`` of its block starts.

    ``seconds`` are those that it takes by itself.  Its wait was predicted to stall for
    ``stalled`` seconds before the pass, and ``stalls`` after it.  ``worked`` and ``works``
    are how many lines give a device work while it is in flight, before and after.
    """

    line: wir.CollectiveLine
    index: int
    bytes: int
    seconds: float
    stalled: float
    stalls: float
    worked: int
    works: int


@frozen(kw_only=True)
class BlockOverlap:
    """What was decided for a block: predicted seconds and peaks of bytes.

    ``bound`` is the time of the work alone, or of the collectives of one group alone if
    that is longer.  ``kept`` says why the lines stay as they are, if they do.
    """

    is_nested: bool
    collectives: tuple[OverlappedCollective, ...]
    seconds_before: float
    seconds: float
    bound: float
    peak_before: int
    peak: int
    limit: int
    kept: str


@frozen(kw_only=True)
class OverlapReport:
    """The decisions for each block of ``program`` that has collectives."""

    program: wir.Program
    machine: Machine
    blocks: tuple[BlockOverlap, ...]
