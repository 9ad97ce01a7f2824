"""Key of what decides, beside a program, how it is compiled: emitter, settings, sources."""

import functools
import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from wrapperir.caching import digest_of
from wrapperir.emit.contract import Emitter


def compilation_key(
    emitter: Emitter, settings: Mapping[str, object], parts: Iterable[object] = ()
) -> str | None:
    """Return the digest of an emitter, settings and the sources of all that compiles.

    These are the files of wrapperir and of each package that defines a class of the
    emitter or of another of the ``parts`` that take part.  ``settings`` are facts of
    :func:`~wrapperir.caching.digest_of`.  ``None``: the emitter has no such key, because it
    says so or is not a package's.
    """
    facts = emitter.cache_facts()
    kinds = [kind for part in (emitter, *parts) for kind in type(part).__mro__]
    modules = {kind.__module__ for kind in kinds if kind is not object}
    packages = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    digests = {name: _package_digest(name) for name in packages | {"wrapperir"}}
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


@functools.cache
def _package_digest(name: str) -> str | None:
    """Return the digest of a package's files; ``None`` if it is not in one directory."""
    paths = list(getattr(sys.modules.get(name), "__path__", ()))
    if len(paths) != 1 or not Path(paths[0]).is_dir():
        return None
    root = Path(paths[0])
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix != ".pyc" and path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root)}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()
