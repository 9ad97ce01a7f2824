"""Programs of the ``torch.compile`` backend that are profiled on their first call."""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from attrs import define, field

from wrapperir.emit.artifact import dump_folder

if TYPE_CHECKING:
    import torch

    from wrapperir.emit import Emitter, Loaded, Value
    from wrapperir.ir import Program


@define(eq=False)
class ProfiledProgram:
    """A loaded program, which writes a profile of itself before its first call.

    The profile goes to a new folder in ``root``, named by ``role``.
    """

    program: "Program"
    emitter: "Emitter"
    constants: "Mapping[str, torch.Tensor]"
    loaded: "Loaded"
    root: Path
    role: str
    _first: Lock = field(factory=Lock, init=False)
    """Is never released: the call that acquires it is the first."""

    def __call__(self, inputs: "list[Value]") -> "tuple[Value, ...]":
        """Run the program."""
        if self._first.acquire(blocking=False):
            self._write_profile(inputs)
        return self.loaded(inputs)

    def _write_profile(self, inputs: "list[Value]") -> None:
        from torch.utils._python_dispatch import (
            _disable_current_modes,  # pyright: ignore[reportPrivateUsage]
        )

        from wrapperir.passes import open_graph_regions
        from wrapperir.profiling import profile_program
        from wrapperir.report import (
            format_profile,
            format_profile_json,
            format_profile_trace,
        )
        from wrapperir.text import format_with_positions

        text, positions = format_with_positions(open_graph_regions(self.program))
        with _disable_current_modes():  # AOTAutograd looks at operators in a first call
            profile = profile_program(
                *(self.program, inputs, self.constants, self.emitter), positions=positions
            )
        folder = dump_folder(self.root, self.role)
        for name, content in {
            "program.wir": text,
            "profile.txt": format_profile(profile),
            "profile.json": format_profile_json(profile),
            "profile.trace.json": format_profile_trace(profile),
        }.items():
            (folder / name).write_text(content, encoding="utf-8")
