"""Key of what decides, beside a program, how it is compiled: emitter, settings, sources."""

import functools
import hashlib
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress

from wrapperir.caching import digest_of
from wrapperir.emit.contract import Emitter


def compilation_key(
    emitter: Emitter,
    settings: Mapping[str, object],
    parts: Iterable[object] = (),
    packages: Iterable[str] = (),
) -> str | None:
    """Return the digest of an emitter, settings and the sources of all that compiles.

    These are the files of wrapperir, of further ``packages``, and of each package that
    defines a class of the emitter or of another of the ``parts`` that take part.
    ``settings`` are facts of
    :func:`~wrapperir.caching.digest_of`.  ``None``: the emitter has no such key, because it
    says so or is not a package's.
    """
    facts = emitter.cache_facts()
    kinds = [kind for part in (emitter, *parts) for kind in type(part).__mro__]
    modules = {kind.__module__ for kind in kinds if kind is not object}
    defining = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    used = defining | {"wrapperir", *packages}
    digests = {name: _package_digest(name) for name in used}
    if facts is None or None in digests.values():
        return None
    kind = type(emitter)
    return digest_of(
        {
            "emitter": [emitter.name, kind.__module__, kind.__qualname__, facts],
            "packages": digests,
            "settings": settings,
        }
    )


_begun: dict[str, tuple[threading.Thread, list[str | None]]] = {}


def begin_digest(package: str) -> None:
    """Begin the digest of a package's files in the background, which a key waits for.

    Where files are slow it takes half a second, mostly without Python's lock.
    """
    found: list[str | None] = []

    def run() -> None:
        with suppress(OSError):  # what needs the digest raises it again
            found.append(_digest_of_files(package))

    if package not in _begun:
        thread = threading.Thread(target=run, name="wrapperir-digest", daemon=True)
        thread.start()
        _begun[package] = thread, found  # only now, since others join what they find


@functools.cache
def _package_digest(name: str) -> str | None:
    """Return the digest of a package's files; ``None`` if it is not in one directory."""
    if name in _begun:
        thread, found = _begun[name]
        thread.join()
        if found:  # a process that was forked meanwhile has none
            return found[0]
    return _digest_of_files(name)


def _digest_of_files(package: str) -> str | None:
    paths: list[str] = list(getattr(sys.modules.get(package), "__path__", ()))
    if len(paths) != 1 or not os.path.isdir(paths[0]):
        return None
    root = paths[0]
    digest = hashlib.sha256()
    # Path.rglob and Path.relative_to take longer than all else here.
    for folder, folders, names in os.walk(root):
        # Modules that are imported meanwhile leave files in the folder of bytecode.
        folders[:] = sorted(set(folders) - {"__pycache__"})
        where = folder[len(root) :]
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not os.path.isfile(path):  # such as an editor's link to nothing
                continue
            with open(path, "rb") as file:
                content = file.read()
            digest.update(f"{where}{os.sep}{name}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()
