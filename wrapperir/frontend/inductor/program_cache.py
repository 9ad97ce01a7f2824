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
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch._functorch import config as functorch_config
from torch._inductor import config
from torch._inductor.codecache import PyCodeCache
from torch._inductor.runtime.cache_dir_utils import cache_dir

from wrapperir.caching import CacheRefusedError, PrivateCache
from wrapperir.emit import OutputCode
from wrapperir.frontend.kept_programs import KeptProgram, keeps_programs, kept_program

if TYPE_CHECKING:
    from torch._inductor.graph import GraphLowering  # which takes half a second

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
    is_on = config.fx_graph_cache or config.fx_graph_remote_cache
    if not keeps_programs() or config.force_disable_caches or not is_on:
        return False
    try:
        PrivateCache(cache_dir()).folder()
    except CacheRefusedError as error:
        _logger.warning("programs are not kept for later processes: %s", error)
        return False
    except OSError:
        return False
    return True


def keep_program(
    graph: "GraphLowering",
    code: OutputCode,
    constants: Mapping[str, torch.Tensor],
    *,
    donated: Sequence[int],
    not_donated: Sequence[int],
) -> None:
    """Give a graph's compiled form, which PyTorch may keep, the module of its program."""
    kept = kept_program(code, {name: name for name in constants}, donated, not_donated)
    graph.constants.update(constants)
    graph.cache_key, graph.cache_path = PyCodeCache.write(format_module(kept))


def format_module(kept: KeptProgram) -> str:
    """Return the text of the module of a program."""
    files = [
        f"        {path!r}: {_literal(content)},\n" for path, content in kept.files.items()
    ]
    return (
        f"{_HEAD}\n\n"
        f"from {KeptProgram.__module__} import KeptProgram\n\n"
        "_wrapperir_program = KeptProgram(\n"
        f"    program={_literal(kept.program)},\n"
        f"    emitter={kept.emitter!r},\n"
        f"    entry={kept.entry!r},\n"
        f"    files={{\n{''.join(files)}    }},\n"
        f"    metadata={dict(kept.metadata)!r},\n"
        f"    constants={dict(kept.constants)!r},\n"
        f"    donated={tuple(kept.donated)!r},\n"
        f"    not_donated={tuple(kept.not_donated)!r},\n"
        ")\n\n\n"
        "def __getattr__(name):\n"
        '    if name == "call":\n'
        "        return _wrapperir_program.load(globals())\n"
        "    raise AttributeError(name)\n"
    )


def is_module(text: str) -> bool:
    """Say whether a text is that of the module of a program."""
    return text.startswith(_HEAD)


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
    from torch._inductor.graph import GraphLowering

    save = GraphLowering.save_output_code
    if save is None:
        yield
        return

    def show(code: str) -> None:
        save(read_module(code).text if is_module(code) else code)

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
