"""A cache of one user: whole files, each named by its key, in a private directory.

A *record* is a small JSON object; each process writes it whole and without a lock.  A
*built file* is made once by one of several processes under a lock.  A file that is not
exactly as it was written counts as missing.

The text of this module is copied beside emitted Python, so it imports the standard library
only; :meth:`PrivateCache.locked` imports ``filelock``, which torch depends on, too.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Final, cast

FORMAT: Final = 2
"""The version of the content of a record's file."""

_SUFFIX: Final = ".json"
_TEMPORARY: Final = ".tmp"
_OWN_TEMPORARY: Final = re.compile(r"\.[0-9a-f]{64}\.json\.[0-9a-f]{16}\.tmp", re.ASCII)
_KEY: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LARGEST: Final = 1 << 20
_STALE_SECONDS: Final = 600.0
"""A writer needs milliseconds; a temporary file this old was left by one that died."""

_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_RECORD: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class CacheRefusedError(PermissionError):
    """Another user could have written to the directory, or its setting is not a path."""


class PrivateCache:
    """The files in a directory of this user alone, which is created when it is needed.

    Records are reached through a descriptor of the directory that was checked, so that
    exchanging the directory meanwhile changes nothing.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Use a directory; it need not exist, and nothing is read or created now."""
        self.directory: Final = os.path.abspath(directory)
        self._swept = False

    def load(self, key: str) -> Mapping[str, object] | None:
        """Return the record of a key, or ``None`` where no whole record is stored.

        Raises:
            CacheRefusedError: others could have written to the directory.
            ValueError: ``key`` is not a digest of :func:`digest_of`.
        """
        _check_key(key)
        try:
            with _checked_directory(self.directory) as directory:
                data = _read(directory, key + _SUFFIX)
        except CacheRefusedError:
            raise
        except OSError:
            return None
        return _decoded(key, data)

    def store(self, key: str, record: Mapping[str, object]) -> None:
        """Store a record under a key, in place of an earlier one.

        Raises:
            CacheRefusedError: others could have written to the directory.
            OSError: the record cannot be written.
            ValueError: ``key`` is not a digest of :func:`digest_of`.
        """
        _check_key(key)
        data = _encoded(key, record)
        with self._created() as directory:
            if not self._swept:
                self._swept = True
                _sweep(directory)
            _write(directory, key + _SUFFIX, data)

    def built(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return the file ``name``; ``make`` writes it where it is missing or damaged.

        ``make`` is given a path in a folder of its own, which is removed afterwards.

        Raises:
            OSError: there is no private directory, or it cannot be written.
            Exception: whatever ``make`` raises.
        """
        kept = self.found(name)
        if kept is not None:
            return kept
        folder = self.folder()
        kept, seal = folder / name, _seal(folder, name)
        with self.locked(name):
            if _is_whole(kept, seal):
                return kept
            scratch = Path(tempfile.mkdtemp(dir=folder))
            try:
                made, sealed = scratch / "made", scratch / "seal"
                make(made)
                sealed.write_text(_file_digest(made))
                seal.unlink(missing_ok=True)
                os.replace(made, kept)
                os.replace(sealed, seal)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        return kept

    def found(self, name: str) -> Path | None:
        """Return the file ``name``; ``None`` where it is missing or damaged.

        Raises:
            OSError: there is no private directory.
        """
        folder = self.folder()
        return folder / name if _is_whole(folder / name, _seal(folder, name)) else None

    def folder(self) -> Path:
        """Create and check the directory; return its path.

        Raises:
            CacheRefusedError: others could have written to the directory.
            OSError: it cannot be created.
        """
        with self._created():
            return Path(self.directory)

    @contextlib.contextmanager
    def locked(self, name: str) -> Generator[Path]:
        """Hold the lock of a file name in the directory, which :meth:`folder` checked.

        Yield the directory.  Names that begin alike share one lock file.
        """
        from filelock import FileLock

        folder = Path(self.directory)
        with FileLock(folder / f"lock-{name[:2]}"):
            yield folder

    @contextlib.contextmanager
    def _created(self) -> Generator[int]:
        if not os.path.lexists(self.directory):
            _check_above(self.directory)  # before anything is created there
            os.makedirs(os.path.dirname(self.directory), mode=0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.directory, mode=0o700)
        with _checked_directory(self.directory) as directory:
            yield directory


def user_cache(kind: str, setting: str = "") -> PrivateCache | None:
    """Return this user's cache of a kind; ``None`` if it is off or the user has no home.

    It is ``wrapperir/<kind>`` in the user's directory for caches: ``XDG_CACHE_HOME``,
    ``~/.cache`` or, on macOS, ``~/Library/Caches``.  The environment variable ``setting``
    turns the cache off (``0``) or is its directory: an absolute path, or one that begins
    with ``~``.

    Raises:
        CacheRefusedError: the environment variable ``setting`` is anything else.
    """
    value = os.environ.get(setting, "").strip() if setting else ""
    if value == "0":
        return None
    if value:
        directory = os.path.expanduser(value)
        if not os.path.isabs(directory):
            raise CacheRefusedError(
                f"{setting}={value!r} is neither 0 nor an absolute path"
            )
        return PrivateCache(directory)
    caches = os.environ.get("XDG_CACHE_HOME", "").strip()
    if not os.path.isabs(caches):
        mac = sys.platform == "darwin"
        caches = os.path.expanduser("~/Library/Caches" if mac else "~/.cache")
    if not os.path.isabs(caches):
        return None
    return PrivateCache(os.path.join(caches, "wrapperir", kind))


def digest_of(facts: object) -> str:
    """Return the SHA-256, in hex, of facts as canonical JSON.

    Facts are ``None``, booleans, finite numbers, strings, lists and tuples of facts, and
    mappings from strings to facts.

    Raises:
        TypeError: a fact is of another type.
        ValueError: a number is not finite.
    """
    return hashlib.sha256(_canonical(_fact(facts))).hexdigest()


def _fact(value: object) -> object:
    """Return a fact as JSON has it; values that JSON writes alike are one fact."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_fact(item) for item in cast("list[object]", value)]
    if isinstance(value, Mapping):
        named: dict[str, object] = {}
        for name, item in cast("Mapping[object, object]", value).items():
            if not isinstance(name, str):
                raise TypeError(f"the name of a fact is a string, not {name!r}")
            named[name] = _fact(item)
        return named
    raise TypeError(f"a {type(value).__name__} cannot be a fact of a key")


def _canonical(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise ValueError(f"not the key of a record: {key!r}")


def _encoded(key: str, record: Mapping[str, object]) -> bytes:
    content = {**record, "format": FORMAT, "key": key}
    digest = hashlib.sha256(_canonical(content)).hexdigest()
    return _canonical({**content, "digest": digest})


def _decoded(key: str, data: bytes) -> Mapping[str, object] | None:
    """Return the record whose file consists of exactly these bytes."""
    try:
        found: object = json.loads(data)
        if not isinstance(found, dict):
            return None
        content = cast("dict[str, object]", found)
        record = {
            name: value
            for name, value in content.items()
            if name not in ("format", "key", "digest")
        }
        return record if _encoded(key, record) == data else None
    except (ValueError, RecursionError):
        return None


def _seal(folder: Path, name: str) -> Path:
    return folder / f"{name}.sha256"


def _is_whole(kept: Path, seal: Path) -> bool:
    try:
        return seal.read_text() == _file_digest(kept)
    except (OSError, UnicodeDecodeError):
        return False


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _checked_directory(path: str) -> Generator[int]:
    """Open a directory that only this user can write to."""
    try:
        directory = os.open(path, _OPEN_DIRECTORY)
    except OSError:
        if os.path.islink(path):
            raise CacheRefusedError(f"{path} is a symbolic link") from None
        raise
    try:
        found = os.fstat(directory)
        if found.st_uid != os.getuid():
            raise CacheRefusedError(f"{path} belongs to another user")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise CacheRefusedError(f"{path} can be written by other users")
        _check_above(path)
        yield directory
    finally:
        os.close(directory)


def _check_above(path: str) -> None:
    """Refuse a path where others can put another directory; it need not exist yet."""
    # The owner of the root directory can do anything anyway: root, or in some sandboxes
    # the user that root is shown as.
    trusted = {os.getuid(), 0, os.stat("/").st_uid}
    above = os.path.dirname(os.path.realpath(path))
    while True:
        try:
            parent = os.stat(above)
        except (FileNotFoundError, NotADirectoryError):
            above = os.path.dirname(above)
            continue
        if parent.st_uid not in trusted:
            raise CacheRefusedError(f"{above}, above {path}, belongs to another user")
        if parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX:
            raise CacheRefusedError(f"{above}, above {path}, can be written by all")
        if above == os.path.dirname(above):
            return
        above = os.path.dirname(above)


def _read(directory: int, name: str) -> bytes:
    file = os.open(name, _OPEN_RECORD, dir_fd=directory)
    with os.fdopen(file, "rb") as stream:
        found = os.fstat(file)
        regular = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
        return stream.read(_LARGEST) if regular else b""


def _write(directory: int, name: str, data: bytes) -> None:
    """Write a file whole: under a temporary name first, then in place of the old one."""
    temporary = f".{name}.{secrets.token_hex(8)}{_TEMPORARY}"
    file = os.open(temporary, _OPEN_NEW, 0o600, dir_fd=directory)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _sweep(directory: int) -> None:
    """Delete the temporary files of writers that were killed."""
    oldest = time.time() - _STALE_SECONDS
    with os.scandir(directory) as found:
        names = [item.name for item in found if _OWN_TEMPORARY.fullmatch(item.name)]
    for name in names:
        with contextlib.suppress(OSError):
            taken = os.stat(name, dir_fd=directory, follow_symlinks=False)
            own = stat.S_ISREG(taken.st_mode) and taken.st_uid == os.getuid()
            if own and taken.st_mtime < oldest:
                os.unlink(name, dir_fd=directory)
