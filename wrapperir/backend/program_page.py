"""Pages of the programs that the ``torch.compile`` backend compiles."""

import threading
from pathlib import Path

from wrapperir.emit import Emitter
from wrapperir.emit.artifact import replacing
from wrapperir.frontend import Lowered
from wrapperir.ir import Program
from wrapperir.plugin import plugin_manager
from wrapperir.report import choose_values
from wrapperir.text import format_with_positions
from wrapperir.view import ProgramText, StageLinks, StepRecorder, format_view, view_program


class PageNames:
    """Files for the pages of a process: the first has the name that is asked for.

    Later ones have the role and a number in their names: ``out-backward-1.html``.
    """

    def __init__(self) -> None:
        """Start with no pages."""
        self._counts: dict[Path, int] = {}
        self._lock = threading.Lock()

    def new_name(self, path: Path, role: str) -> Path:
        """Return the file of the next page."""
        with self._lock:
            count = self._counts.get(path.absolute(), 0)
            self._counts[path.absolute()] = count + 1
        return path.with_stem(f"{path.stem}-{role}-{count}") if count else path


_names = PageNames()


class ProgramPage:
    """The page of one program, written when it has been compiled.

    ``steps`` observes the passes.
    """

    def __init__(self, lowered: Lowered, path: Path, role: str) -> None:
        """Take the program before its passes, and where the first page goes."""
        symbols = choose_values(lowered.program, {})
        self._stages = lowered.stages
        self.steps = StepRecorder({symbol.name: symbol.value for symbol in symbols})
        self._path = path
        self._role = role

    def write(self, program: Program, emitter: Emitter) -> None:
        """Write the page of the program after its passes; the emitter's code is first.

        Raises:
            OSError: it cannot be written.
        """
        installed = plugin_manager().emitters
        others = [each for name, each in installed.items() if name != emitter.name]
        shown = ProgramText(program, *format_with_positions(program))
        source = f"torch.compile, {self._role}"
        stages, links = self._stages, None
        if stages is not None:
            links = StageLinks(
                program, stages.loops, stages.schedule, stages.symbols, stages.joined
            )
        steps = self.steps.steps
        view = view_program(shown, source, {}, [emitter, *others], steps, links)
        file = _names.new_name(self._path, self._role)
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file, by_file=True) as new:
            new.write_text(format_view(view), encoding="utf-8")
