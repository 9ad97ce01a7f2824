"""Compiled programs in PyTorch's cache of compiled graphs, for later processes.

PyTorch keeps what Inductor makes of a graph, and what AOTAutograd does before, under
digests of graph, inputs, settings and versions, with the guards on symbolic sizes.  An
entry has the text of a Python module.  The module of a program holds the program's text and
the emitted files as strings, and has the emitter load these when PyTorch imports it:
nothing is lowered, verified or emitted.  What decides how programs are compiled is in
PyTorch's digests as their ``cache_key_tag``.
"""

import ast
import contextlib
import logging
import os
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from attrs import frozen
from torch._functorch import config as functorch_config
from torch._inductor import config
from torch._inductor.codecache import PyCodeCache
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.cache_dir_utils import cache_dir

from wrapperir.caching import CacheRefusedError, PrivateCache
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Artifact, OutputCode
from wrapperir.emit.pipeline import find_emitter, format_code, load_stored

if TYPE_CHECKING:
    from wrapperir.emit import Loaded

SETTING = "WRAPPERIR_PROGRAM_CACHE"
"""The environment variable that, as ``0``, turns the cache of programs off."""

_HEAD = '"""A program that wrapperir compiled: its text and the emitted files."""'
_compiler_config: Any = torch.compiler.config
_logger = logging.getLogger("wrapperir.cache")


@contextlib.contextmanager
def cached_by(key: str | None) -> Generator[None]:
    """Have PyTorch keep graphs under its digests and ``key``, or keep none for ``None``."""
    with contextlib.ExitStack() as stack:
        if key is None:
            stack.enter_context(config.patch(fx_graph_cache=False))
            stack.enter_context(functorch_config.patch(enable_autograd_cache=False))
        else:
            tag = f"{_compiler_config.cache_key_tag} wrapperir {key}"
            stack.enter_context(_compiler_config.patch(cache_key_tag=tag))
        yield


def can_keep_programs() -> bool:
    """Say whether PyTorch's cache is on and in a directory of this user alone.

    PyTorch executes what it finds there.
    """
    is_off = os.environ.get(SETTING, "").strip() == "0"
    is_on = config.fx_graph_cache or config.fx_graph_remote_cache
    if is_off or config.force_disable_caches or not is_on:
        return False
    try:
        PrivateCache(cache_dir()).folder()
    except CacheRefusedError as error:
        _logger.warning("programs are not kept for later processes: %s", error)
        return False
    except OSError:
        return False
    return True


@frozen(kw_only=True)
class KeptProgram:
    """A program's text and its artifact, in the module that PyTorch keeps.

    ``donated`` are the positions of the inputs that a backward is given for good,
    ``not_donated`` the positions, among all that a forward saves, of tensors that the
    backward is not given so.  ``constants`` are names of the module's variables.
    """

    program: str
    emitter: str
    entry: str
    files: Mapping[str, str | bytes]
    metadata: Mapping[str, str]
    constants: Sequence[str]
    donated: Sequence[int]
    not_donated: Sequence[int]

    @property
    def artifact(self) -> Artifact:
        """The artifact of the emitted files."""
        return Artifact(self.emitter, self.files, self.entry, self.metadata)

    def load(self, variables: Mapping[str, Any]) -> "Loaded":
        """Return the callable of the program; ``variables`` are the module's.

        Raises:
            OSError: it cannot be loaded; PyTorch then compiles the graph anew.
        """
        try:
            emitter = find_emitter(self.emitter)
            constants = {name: variables[name] for name in self.constants}
            loaded = load_stored(self.artifact, emitter, constants)
        except (DiagnosticError, KeyError) as error:
            raise OSError(f"a program that was kept does not load: {error}") from error
        if not self.donated and not self.not_donated:
            return loaded
        from wrapperir.frontend.inductor.donation import donate_less, retaining

        donate_less(self.not_donated)
        return retaining(loaded, self.donated) if self.donated else loaded


def keep_program(
    graph: GraphLowering,
    code: OutputCode,
    constants: Mapping[str, torch.Tensor],
    *,
    donated: Sequence[int],
    not_donated: Sequence[int],
) -> None:
    """Give a graph's compiled form, which PyTorch may keep, the module of its program."""
    from wrapperir.text import format_program

    artifact = code.artifact
    kept = KeptProgram(
        program=format_program(code.program),
        emitter=artifact.emitter,
        entry=artifact.entry,
        files=artifact.files,
        metadata=artifact.metadata,
        constants=tuple(constants),
        donated=tuple(donated),
        not_donated=tuple(not_donated),
    )
    graph.constants.update(constants)
    graph.cache_key, graph.cache_path = PyCodeCache.write(format_module(kept))


def format_module(kept: KeptProgram) -> str:
    """Return the text of the module of a program."""
    files = [
        f"        {path!r}: {_literal(content)},\n" for path, content in kept.files.items()
    ]
    return (
        f"{_HEAD}\n\n"
        f"from {__name__} import KeptProgram\n\n"
        "_wrapperir_program = KeptProgram(\n"
        f"    program={_literal(kept.program)},\n"
        f"    emitter={kept.emitter!r},\n"
        f"    entry={kept.entry!r},\n"
        f"    files={{\n{''.join(files)}    }},\n"
        f"    metadata={dict(kept.metadata)!r},\n"
        f"    constants={tuple(kept.constants)!r},\n"
        f"    donated={tuple(kept.donated)!r},\n"
        f"    not_donated={tuple(kept.not_donated)!r},\n"
        ")\n\n\n"
        "def __getattr__(name):\n"
        '    if name == "call":\n'
        "        return _wrapperir_program.load(globals())\n"
        "    raise AttributeError(name)\n"
    )


def read_module(text: str) -> KeptProgram:
    """Return the program of a module's text, without executing it."""
    (call,) = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
    )
    fields = {item.arg or "": ast.literal_eval(item.value) for item in call.keywords}
    return KeptProgram(**fields)


@contextlib.contextmanager
def showing_emitted_code() -> Generator[None]:
    """Have ``run_and_get_code`` get the emitted code where a kept program is loaded."""
    save = GraphLowering.save_output_code
    if save is None:
        yield
        return

    def show(code: str) -> None:
        if code.startswith(_HEAD):
            kept = read_module(code)
            code = format_code(kept.artifact, find_emitter(kept.emitter))
        save(code)

    with mock.patch.object(GraphLowering, "save_output_code", show):
        yield


def _literal(content: str | bytes) -> str:
    """Return a literal of the content, where possible with its lines as they are."""
    if isinstance(content, str) and content.isascii():
        parts = content.split("'''")
        is_plain = content.replace("\n", "").replace("\t", "").isprintable()
        if is_plain and not any(part.endswith(("'", "\\")) for part in parts):
            return "(" + " \"'''\" ".join(f"r'''{part}'''" for part in parts) + ")"
    return repr(content)
