"""The code that each installed emitter makes of a program, linked with its lines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePosixPath

from wrapperir import ir as wir
from wrapperir.diagnostics import DiagnosticError, LinePath
from wrapperir.emit import Artifact, Emitter
from wrapperir.emit.pipeline import emit_with_paths
from wrapperir.ir.blocks import walk_places
from wrapperir.kernels.emitted.kernel_sources import split_includes
from wrapperir.view.links import CodeFile, CodeRange, EmittedCode


def emit_codes(
    program: wir.Program, emitters: Iterable[Emitter]
) -> tuple[EmittedCode, ...]:
    """Return the code of each emitter, in order, for a verified program.

    What an emitter refuses is shown with its reasons; nothing of the program is executed.
    """
    return tuple(_emitted(program, emitter) for emitter in emitters)


def _emitted(program: wir.Program, emitter: Emitter) -> EmittedCode:
    try:
        artifact, paths = emit_with_paths(program, emitter)
        shown = emitter.shown_files(artifact)
    except DiagnosticError as error:
        reasons = dict.fromkeys(
            f"{each.code.value}: {each.message}" + (f" ({each.hint})" if each.hint else "")
            for each in error.diagnostics
        )
        return EmittedCode(emitter=emitter.name, refusals=tuple(reasons))
    link = _CodeLinks(program)
    files: list[CodeFile] = []
    for path in dict.fromkeys(shown):
        content = artifact.files.get(path)
        if isinstance(content, str) and not _is_program(artifact, path):
            ranges = link.ranges(path, content, paths.get(path, ()))
            files.append(CodeFile(path=path, text=content, ranges=ranges))
    return EmittedCode(emitter=emitter.name, files=tuple(files))


def _is_program(artifact: Artifact, path: str) -> bool:
    return path.endswith(".wir") or path == "program.json"


class _CodeLinks:
    """Finds what lines of code are for."""

    def __init__(self, program: wir.Program) -> None:
        """Number the program's lines and kernels."""
        self._lines: Mapping[LinePath, int] = {
            path: index for index, (_, path) in enumerate(walk_places(program.lines))
        }
        self._kernels = {line.name: i for i, line in enumerate(program.definitions)}
        self._sources = {
            index: line.source.rstrip()
            for index, line in enumerate(program.definitions)
            if isinstance(line, wir.KernelDefinitionLine) and line.source.strip()
        }

    def ranges(
        self, file: str, text: str, paths: Sequence[LinePath]
    ) -> tuple[CodeRange, ...]:
        """Return the ranges of a file whose lines have these paths.

        Without paths, they are the kernel that the file is named after, or those whose
        sources stand in it.
        """
        if not paths:
            return tuple(self._of_kernels(PurePosixPath(file).stem, text))
        found: list[CodeRange] = []
        number = 1
        for path, group in groupby(paths):
            end = number + sum(1 for _ in group)
            line, kernel = self._lines.get(path), None
            if path[:1] == ("definitions",):
                kernel = self._kernels.get(str(path[1]))
            if line is not None or kernel is not None:
                source = 0 if kernel is None else self._source_line(kernel, text)
                of_path = CodeRange(
                    begin=number, end=end - 1, line=line, kernel=kernel, source=source
                )
                found.append(of_path)
            number = end
        return tuple(found)

    def _of_kernels(self, stem: str, text: str) -> Iterator[CodeRange]:
        if stem in self._kernels:
            kernel, end = self._kernels[stem], text.count("\n") + 1
            begin = self._source_line(kernel, text)
            yield CodeRange(begin=1, end=end, kernel=kernel, source=begin)
            return
        for kernel, source in self._sources.items():
            begin = self._source_line(kernel, text)
            if begin:
                end = begin + source.count("\n")
                yield CodeRange(begin=begin, end=end, kernel=kernel, source=begin)

    def _source_line(self, kernel: int, text: str) -> int:
        """Return the line of a text where a kernel's source begins, or 0.

        If an emitter has put lines after its includes, the source is taken to begin so that
        what follows them is in its place.
        """
        source = self._sources.get(kernel)
        if source is None:
            return 0
        for part in (source, split_includes(source)[1]):
            at = text.find(part)
            before = source[: len(source) - len(part)].count("\n")
            if part and at >= 0:
                return max(text.count("\n", 0, at) + 1 - before, 0)
        return 0
