"""The machine's C++ compiler, and objects and libraries kept in the user's cache."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath

from attrs import frozen

from wrapperir.caching import built_once, digest_of
from wrapperir.diagnostics import Code, DiagnosticError

_ERROR = re.compile(
    r"\berror:|undefined reference|multiple definition|cannot find|discarded section"
)
_INTERRUPTED = "Interrupt signal terminated program"  # GCC's words for one of its processes
_SHOWN_ERRORS = 3
_LONGEST_ERROR = 2000
_INCLUDE = re.compile(r'^\s*#\s*include\s*["<](?:[^">\n]*/)?([^">/\n]+)[">]', re.MULTILINE)
_LINK_FLAGS = (
    *("-shared", "-Wl,--no-as-needed", "-Wl,-Bsymbolic", "-Wl,-z,now"),
    # Tensors may outlive a program, and its library releases their memory.
    "-Wl,-z,nodelete",
)


@frozen
class Compiler:
    """A command that compiles C++, and the output of its ``--version``."""

    command: tuple[str, ...]
    version: str

    def run(self, arguments: Sequence[str], directory: Path, what: str) -> None:
        """Run it in ``directory``; ``what`` names what is built.

        Raises:
            DiagnosticError: WIR709, it fails; the message has its first errors.
            KeyboardInterrupt: Ctrl-C ended it, as it ends all processes of a terminal.
        """
        done = subprocess.run(  # noqa: S603
            [*self.command, *arguments],
            cwd=directory,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        check_ended(done, what)
        if done.returncode:
            raise failed(f"{what} does not build: {first_errors(done.stderr)}")


def check_ended(done: subprocess.CompletedProcess[str], what: str) -> None:
    """Refuse the result of a compiler that a signal ended, ``what`` as above.

    Raises:
        DiagnosticError: WIR709, it was killed.
        KeyboardInterrupt: Ctrl-C ended it.
    """
    status = done.returncode
    if status in (-signal.SIGINT, 128 + signal.SIGINT) or _INTERRUPTED in done.stderr:
        raise KeyboardInterrupt
    if status < 0:
        raise failed(f"{what} does not build: the compiler was {killed_by(-status)}")


def killed_by(number: int) -> str:
    """Return how a message says that a signal ended a process."""
    cause = "; was there too little memory?" if number == signal.SIGKILL else ""
    return f"killed by signal {number}{cause}"


def first_errors(output: str) -> str:
    """Return the first errors in what a compiler printed."""
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    errors = [line for line in errors if "ld returned" not in line] or lines
    return "\n".join(errors[:_SHOWN_ERRORS])[:_LONGEST_ERROR] or "the compiler failed"


def failed(message: str, hint: str | None = None) -> DiagnosticError:
    """Return the error for a source that does not build."""
    return Code.KERNEL_BUILD_FAILED.error(message, hint=hint)


def find_compiler() -> Compiler:
    """Return the compiler that ``CXX`` names, or ``g++``, or ``c++``.

    Raises:
        DiagnosticError: WIR709, there is none, or it does not run.
    """
    spelled = os.environ.get("CXX") or ("g++" if shutil.which("g++") else "c++")
    try:
        command = tuple(shlex.split(spelled))
    except ValueError:
        command = ()
    if not command or shutil.which(command[0]) is None:
        raise failed(
            f"there is no C++ compiler: {spelled[:200]!a} is not a command",
            hint="install one, such as g++, or set CXX to it",
        )
    return Compiler(command, compiler_version(command))


@lru_cache
def compiler_version(command: tuple[str, ...]) -> str:
    """Return a compiler's ``--version``.

    Raises:
        DiagnosticError: WIR709, it does not run.
    """
    try:
        return subprocess.run(  # noqa: S603
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        hint = "set CXX to a C++ compiler"
        raise failed(f"the C++ compiler does not run: {error}", hint) from None


def torch_facts() -> tuple[str, str]:
    """Return the version and place of torch, on which built files depend."""
    import torch  # late: extensions of torch are built while it is imported

    return torch.__version__, str(Path(torch.__file__).parent)


def compile_object(
    compiler: Compiler,
    path: str,
    text: str,
    headers: Mapping[str, str],
    flags: Sequence[str],
    shown: Path | None = None,
) -> Path:
    """Return the object of a source, with ``headers`` beside it.

    Paths are relative, with ``/``; messages show them.  Only included headers are part of
    the key, so that programs with other headers share the object.  With ``shown``, it has
    debug information, for which the files are in that folder.

    Raises:
        DiagnosticError: WIR709, it does not compile; WIR710, it cannot be kept.
    """
    headers = _included_headers(text, headers)
    folders = sorted({str(PurePosixPath(header).parent) for header in headers})
    flags = [*flags, *(f"-I{folder}" for folder in folders)]
    facts = compiler.command, compiler.version, flags, torch_facts()
    place = [] if shown is None else [str(shown)]
    key = digest_of((*facts, path, text, sorted(headers.items()), *place))

    def compile_to(output: Path) -> None:
        for name, content in (*headers.items(), (path, text)):
            file = output.parent / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        described = debug_flags(output.parent, shown)
        arguments = [*flags, *described, "-c", path, "-o", str(output)]
        compiler.run(arguments, output.parent, path)

    return built_once("objects", key, compile_to)


def debug_flags(folder: Path, shown: Path | None) -> tuple[str, ...]:
    """Return flags for debug information with ``shown`` in place of ``folder``, if given.

    ``folder`` is the one that the compiler runs in, which is removed afterwards.
    """
    if shown is None:
        return ()
    return ("-g", f"-fdebug-prefix-map={folder.resolve()}={shown}")


def _included_headers(text: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that a source includes, directly or through others."""
    found: dict[str, str] = {}
    texts = [text]
    while texts:
        names = set(_INCLUDE.findall(texts.pop()))
        for path, content in headers.items():
            if path not in found and PurePosixPath(path).name in names:
                found[path] = content
                texts.append(content)
    return found


def link_library(
    compiler: Compiler,
    name: str,
    objects: Sequence[Path],
    libraries: Sequence[str],
    exported: Sequence[str],
    flags: Sequence[str] = (),
) -> Path:
    """Return the library of some objects, in the user's cache.

    ``libraries`` are file names of torch's libraries; the installed ones are linked.
    ``exported`` are patterns of the exported functions.

    Raises:
        DiagnosticError: WIR709, it does not link; WIR710, it cannot be kept.
    """
    _, torch_folder = torch_facts()
    folder = Path(torch_folder) / "lib"
    libraries = [library for library in libraries if (folder / library).exists()]
    flags = (*_LINK_FLAGS, *flags, f"-Wl,-rpath,{folder}")
    facts = compiler.command, compiler.version, flags, libraries, exported
    key = digest_of((*facts, [path.name for path in objects]))

    # Built before this library's lock is held: a stub may need the same lock.
    stubs = [str(_stub(compiler, library)) for library in libraries]

    def link(output: Path) -> None:
        script = output.parent / "exported"
        names = "".join(f"{pattern}; " for pattern in exported)
        script.write_text(f"{{ global: {names}local: *; }};\n")
        arguments = [*flags, "-Wl,--version-script=exported", *map(str, objects), *stubs]
        compiler.run([*arguments, "-o", str(output)], output.parent, name)

    return built_once("libraries", key, link)


def _stub(compiler: Compiler, library: str) -> Path:
    """Return an empty library of this name, which links faster than torch's own."""
    flags = ("-shared", "-nostdlib", f"-Wl,-soname,{library}", "-xc++", os.devnull)
    key = digest_of((compiler.command, compiler.version, flags))

    def link(output: Path) -> None:
        compiler.run([*flags, "-o", str(output)], output.parent, library)

    return built_once("libraries", key, link)
