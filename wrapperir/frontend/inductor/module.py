"""What Inductor is given in place of the Python module that it would have written."""

import os
import tempfile
from typing import TYPE_CHECKING, Any

from torch._inductor import config
from torch._inductor.codegen.common import FileBackedGraphModule

from wrapperir.ir.program import Program

if TYPE_CHECKING:
    from wrapperir.emit.contract import Loaded, Value


class CapturedModule(FileBackedGraphModule):
    """Stands where Inductor expects a generated module: it has ``call`` and a file.

    Inductor takes only its own classes there, hence the base; nothing of it is used.
    """

    def __init__(self, program: Program, loaded: "Loaded") -> None:
        """Hold the callable that Inductor's compiled graph will call."""
        self.program = program
        self._loaded = loaded
        self._file: str | None = None

    @property
    def __file__(self) -> str:
        """Path of the program's text, which is written only where it will be copied."""
        if not config.trace.enabled:
            return f"<wrapperir program {self.program.name}>"
        if self._file is None:
            handle, self._file = tempfile.mkstemp(prefix="wrapperir-", suffix=".wir")
            with os.fdopen(handle, "w") as file:
                file.write(self.value)
        return self._file

    @property
    def value(self) -> str:
        """The program's text."""
        from wrapperir.text import format_program

        return format_program(self.program)

    def call(self, args: "list[Value]") -> Any:
        """Run the program; ``args`` is emptied."""
        return self._loaded(args)
