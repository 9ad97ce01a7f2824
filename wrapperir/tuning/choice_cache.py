"""Keeps the times of a multi-kernel's choices for later runs, in files of this user.

A *case* is all that decides the times: kernels, arguments, device, versions.  Each has a
file of its own, named by its key and written whole, so that processes can share a
directory without locks.  What is not exactly as it was written is no entry.

This module needs the standard library only: its text is copied beside emitted Python.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Final, cast

SETTING: Final = "WRAPPERIR_CHOICE_CACHE"
"""The environment variable that turns the cache off (``0``) or is its absolute path."""

FORMAT: Final = 2
"""The version of what is in a file."""

_SUFFIX: Final = ".json"
_TEMPORARY: Final = ".tmp"
_OWN_TEMPORARY: Final = re.compile(r"\.[0-9a-f]{64}\.json\.[0-9a-f]{16}\.tmp", re.ASCII)
_LARGEST: Final = 1 << 20
_STALE_SECONDS: Final = 600.0
"""A writer needs milliseconds; a temporary file this old was left by one that died."""

_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_ENTRY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class CacheRefusedError(PermissionError):
    """The directory could have been written by someone else, or the setting is no path."""


@dataclass(frozen=True)
class Entry:
    """The microseconds of each choice of a case, ``None`` for one that failed.

    Raises:
        ValueError: there is no time at all, or one is negative or not finite.
    """

    microseconds: tuple[float | None, ...]

    def __post_init__(self) -> None:
        """Refuse what no measurement gives."""
        known = [time for time in self.microseconds if time is not None]
        if not known:
            raise ValueError("an entry needs the time of at least one choice")
        if not all(math.isfinite(time) and time >= 0 for time in known):
            raise ValueError(f"not all are times: {self.microseconds}")

    @property
    def choice(self) -> int:
        """The position of the fastest; of equals, of the first."""
        times = [math.inf if time is None else time for time in self.microseconds]
        return times.index(min(times))


class ChoiceCache:
    """The entries in a directory of this user's alone, which is made when it is needed.

    The files are reached through a descriptor of the directory that was checked, so that
    exchanging it meanwhile changes nothing.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Use a directory; it need not exist yet, and nothing is read or made now."""
        self.directory: Final = os.path.abspath(directory)
        self._swept = False

    def load(self, key: str) -> Entry | None:
        """Return the entry of a key; ``None`` where there is none that is whole.

        Raises:
            CacheRefusedError: others could have written to the directory.
            ValueError: ``key`` is none of :func:`choice_key`.
        """
        name = _file_name(key)
        try:
            with _checked_directory(self.directory) as directory:
                data = _read(directory, name)
        except CacheRefusedError:
            raise
        except OSError:
            return None
        return _decoded(key, data)

    def store(self, key: str, entry: Entry) -> None:
        """Keep an entry under a key, in place of an earlier one.

        Raises:
            CacheRefusedError: others could have written to the directory.
            OSError: it cannot be written.
            ValueError: ``key`` is none of :func:`choice_key`.
        """
        name = _file_name(key)
        data = _encoded(key, entry)
        _check_above(self.directory)  # before anything is made there
        os.makedirs(os.path.dirname(self.directory), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.directory, mode=0o700)
        with _checked_directory(self.directory) as directory:
            if not self._swept:
                self._swept = True
                _sweep(directory)
            _write(directory, name, data)


def choice_key(facts: Mapping[str, object]) -> str:
    """Return the key of a case: the SHA-256, in hex, of its facts as canonical JSON.

    Facts are ``None``, booleans, finite numbers, strings, lists and tuples of facts, and
    mappings from strings to facts.

    Raises:
        TypeError: one is of another type.
        ValueError: a number is not finite.
    """
    return hashlib.sha256(_canonical(_fact(facts))).hexdigest()


def default_cache() -> ChoiceCache | None:
    """Return this user's cache, or ``None`` where it is turned off or there is no home.

    ``WRAPPERIR_CHOICE_CACHE=0`` turns it off, and an absolute path there is its directory,
    or one that begins with ``~``.  Without, it is ``wrapperir/choices`` in the user's
    directory for caches: ``XDG_CACHE_HOME``, ``~/.cache`` or, on macOS,
    ``~/Library/Caches``.

    Raises:
        CacheRefusedError: ``WRAPPERIR_CHOICE_CACHE`` is anything else.
    """
    setting = os.environ.get(SETTING, "").strip()
    if setting == "0":
        return None
    if setting:
        directory = os.path.expanduser(setting)
        if not os.path.isabs(directory):
            raise CacheRefusedError(
                f"{SETTING}={setting!r} is neither 0 nor an absolute path"
            )
        return ChoiceCache(directory)
    caches = os.environ.get("XDG_CACHE_HOME", "").strip()
    if not os.path.isabs(caches):
        mac = sys.platform == "darwin"
        caches = os.path.expanduser("~/Library/Caches" if mac else "~/.cache")
    if not os.path.isabs(caches):
        return None
    return ChoiceCache(os.path.join(caches, "wrapperir", "choices"))


@contextlib.contextmanager
def fresh_choice_cache() -> Generator[ChoiceCache]:
    """Make an empty cache the default one, here and in processes started meanwhile.

    Its files are deleted in the end, and the one of before is the default again.
    """
    with tempfile.TemporaryDirectory(prefix="wrapperir-choices-") as directory:
        before = os.environ.get(SETTING)
        os.environ[SETTING] = directory
        try:
            yield ChoiceCache(directory)
        finally:
            if before is None:
                os.environ.pop(SETTING, None)
            else:
                os.environ[SETTING] = before


def _fact(value: object) -> object:
    """Return a fact as JSON has it; of what JSON would write alike, only one is one."""
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
    raise TypeError(f"a {type(value).__name__} is no fact of a case")


def _canonical(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _file_name(key: str) -> str:
    if len(key) != 64 or not set(key) <= set("0123456789abcdef"):
        raise ValueError(f"not the key of a case: {key!r}")
    return key + _SUFFIX


def _encoded(key: str, entry: Entry) -> bytes:
    times = [None if time is None else float(time) for time in entry.microseconds]
    content: dict[str, object] = {"format": FORMAT, "key": key, "microseconds": times}
    digest = hashlib.sha256(_canonical(content)).hexdigest()
    return _canonical({**content, "digest": digest})


def _decoded(key: str, data: bytes) -> Entry | None:
    """Return the entry in a file's bytes, which are exactly those that it is written as."""
    try:
        found: object = json.loads(data)
        if not isinstance(found, dict):
            return None
        times = cast("dict[str, object]", found).get("microseconds")
        if not isinstance(times, list):
            return None
        known: list[float | None] = []
        for value in cast("list[object]", times):
            if value is not None and not isinstance(value, float):
                return None
            known.append(value)
        entry = Entry(tuple(known))
    except (ValueError, RecursionError):
        return None
    return entry if _encoded(key, entry) == data else None


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
        _check(path, os.fstat(directory))
        yield directory
    finally:
        os.close(directory)


def _check(path: str, found: os.stat_result) -> None:
    """Refuse a directory that others can write to, or can put another in place of."""
    if found.st_uid != os.getuid():
        raise CacheRefusedError(f"{path} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheRefusedError(f"{path} can be written by other users")
    _check_above(path)


def _check_above(path: str) -> None:
    """Refuse a path that others can put another directory at; not all of it need exist."""
    # Whoever owns the root directory can do anything anyway: root, or in some sandboxes
    # the one that its users are shown as.
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
    file = os.open(name, _OPEN_ENTRY, dir_fd=directory)
    with os.fdopen(file, "rb") as stream:
        found = os.fstat(file)
        regular = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
        return stream.read(_LARGEST) if regular else b""


def _write(directory: int, name: str, data: bytes) -> None:
    """Write a file whole: under a name of its own first, then in place of the old one."""
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
