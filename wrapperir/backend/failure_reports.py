"""Bug reports of the ``torch.compile`` backend."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, field

if TYPE_CHECKING:
    import torch

    from wrapperir.backend.options import BackendOptions
    from wrapperir.emit import Loaded, Value
    from wrapperir.ir import Program


@define(eq=False)
class FailureReports:
    """Writes reports of failures of one graph of Dynamo's, and of its programs.

    Without a folder for reports it does nothing.
    """

    folder: Path | None
    with_data: bool
    options: Mapping[str, object]
    repeat: str
    inputs: Sequence[Any]
    _program: "Program | None" = field(default=None, init=False)

    @classmethod
    def of(
        cls,
        chosen: "BackendOptions",
        given: Mapping[str, object],
        mode: str | None,
        graph: "torch.fx.GraphModule",
        inputs: Sequence[Any],
    ) -> "FailureReports":
        """Return the reports of a graph, which compiling it then changes."""
        if chosen.bug_report is None:
            return cls(None, False, {}, "", ())
        from wrapperir.backend.repeat import format_repeat

        named = {n: value for n, value in given.items() if not n.startswith("bug_report")}
        repeat = format_repeat(graph, inputs, named, mode)
        asked = {**named, "mode": mode}
        return cls(chosen.bug_report, chosen.bug_report_data, asked, repeat, inputs)

    @contextmanager
    def of_program(self, program: "Program") -> Generator[None]:
        """Have the report of an error that is raised meanwhile hold the program."""
        self._program = program
        yield
        self._program = None

    def write(self, error: Exception) -> Path | None:
        """Write a report, and return its folder."""
        program, self._program = self._program, None
        return self._write(error, program, self.inputs)

    def _write(
        self, error: Exception, program: "Program | None", data: Sequence[object]
    ) -> Path | None:
        if self.folder is None:
            return None
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        from wrapperir.bug_reports import BugReport, describe_value, write_bug_report

        with unset_fake_temporarily():  # a graph is compiled with fake tensors
            report = BugReport(
                error=error,
                command=("python", "repeat.py"),
                program=program,
                options=self.options,
                inputs=[describe_value(value) for value in self.inputs],
                files={"repeat.py": self.repeat},
                data={"inputs.pt": list(map(_copied, data))} if self.with_data else {},
            )
            return write_bug_report(report, self.folder)

    def watching(self, loaded: "Loaded", program: "Program") -> "Loaded":
        """Return a program that writes a report if it raises an error as it runs."""
        if self.folder is None:
            return loaded

        def call(inputs: "list[Value]") -> "tuple[Value, ...]":
            data = list(map(_copied, inputs)) if self.with_data else []
            try:
                return loaded(inputs)
            except Exception as error:
                folder = self._write(error, program, data)
                if folder is not None:
                    error.add_note(f"wrapperir: {folder} has a report of this")
                raise

        return call


def _copied(value: object) -> object:
    import torch

    return value.detach().clone() if isinstance(value, torch.Tensor) else value
