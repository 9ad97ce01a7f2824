"""What the graph regions of loaded programs have recorded, in this process."""

import sys
from typing import Protocol
from weakref import WeakSet


class HasRecordings(Protocol):
    """A loaded program."""

    def drop_recordings(self) -> None:
        """Drop what its graph regions have recorded; later calls record it again."""
        ...


_CAPTURES = "wrapperir_graph_captures_"
"""What the names of modules begin with that emitted Python shares to capture graphs."""

_programs: WeakSet[HasRecordings] = WeakSet()


def note_recordings(program: HasRecordings) -> None:
    """Have :func:`drop_recordings` drop those of a program, while it is alive."""
    _programs.add(program)


def drop_recordings() -> None:
    """Drop what the graph regions of all loaded programs have recorded.

    Later calls record it again.  While a recording has collectives, NCCL does not destroy
    their process group: ``destroy_process_group`` waits for ever.
    """
    for program in list(_programs):
        program.drop_recordings()
    for name, module in list(sys.modules.items()):
        if name.startswith(_CAPTURES):
            module.drop_recordings()
