"""The cache of choices: whole entries only, in a directory of this user only."""

import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forked_processes import ProcessServer
from wrapperir.caching import CacheRefusedError, PrivateCache, digest_of, private_cache
from wrapperir.tuning.choice_cache import (
    SETTING,
    ChoiceCache,
    ChoiceTimes,
    default_cache,
    fresh_choice_cache,
)

KEY = digest_of({"kernel": "softmax", "sizes": [64, 100]})
ENTRY = ChoiceTimes((12.5, None, 3.25))
HAMMER = Path(__file__).with_name("cache_hammer.py")


@pytest.fixture
def cache(tmp_path: Path) -> ChoiceCache:
    return ChoiceCache(tmp_path / "choices")


def file_of(cache: ChoiceCache, key: str = KEY) -> Path:
    return Path(cache.directory, f"{key}.json")


def test_an_entry_comes_back_and_its_choice_is_the_first_of_the_fastest(
    cache: ChoiceCache,
) -> None:
    assert cache.load(KEY) is None
    cache.store(KEY, ENTRY)
    assert cache.load(KEY) == ENTRY
    assert ENTRY.choice == 2
    assert ChoiceTimes((None, 2.0, 2.0)).choice == 1
    cache.store(KEY, ChoiceTimes((1, 2.0)))
    assert cache.load(KEY) == ChoiceTimes((1.0, 2.0))
    assert os.listdir(cache.directory) == [f"{KEY}.json"]


def test_an_entry_is_in_a_directory_and_a_file_of_this_user_only(
    cache: ChoiceCache,
) -> None:
    before = os.umask(0)
    try:
        cache.store(KEY, ENTRY)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(cache.directory).st_mode) == 0o700
    assert stat.S_IMODE(file_of(cache).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "times", [(), (None, None), (1.0, -1.0), (float("inf"),), (float("nan"), 1.0)]
)
def test_what_no_measurement_gives_is_no_entry(times: tuple[float | None, ...]) -> None:
    with pytest.raises(ValueError, match="time"):
        ChoiceTimes(times)


@pytest.mark.parametrize("key", ["", "../../x", KEY.upper(), KEY[:-1], KEY + "0"])
def test_what_is_no_key_names_no_file(cache: ChoiceCache, key: str) -> None:
    with pytest.raises(ValueError, match="not the key"):
        cache.load(key)
    with pytest.raises(ValueError, match="not the key"):
        cache.store(key, ENTRY)


def test_a_flipped_byte_is_detected_wherever_it_is(cache: ChoiceCache) -> None:
    cache.store(KEY, ENTRY)
    path = file_of(cache)
    whole = path.read_bytes()
    for position in range(len(whole)):
        for flip in [1 << bit for bit in range(8)] + [0xFF]:
            damaged = bytearray(whole)
            damaged[position] ^= flip
            path.write_bytes(damaged)
            assert cache.load(KEY) is None, (position, flip)
    path.write_bytes(whole)
    assert cache.load(KEY) == ENTRY


def test_what_was_cut_or_added_to_is_no_entry(cache: ChoiceCache) -> None:
    cache.store(KEY, ENTRY)
    path = file_of(cache)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert cache.load(KEY) is None, length
    for added in (b"\n", b" ", b"\0", whole):
        path.write_bytes(whole + added)
        assert cache.load(KEY) is None, added


def test_the_entry_of_another_key_is_none(cache: ChoiceCache) -> None:
    other = digest_of({"kernel": "sum"})
    cache.store(other, ENTRY)
    file_of(cache, other).rename(file_of(cache))
    assert cache.load(KEY) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        '{"microseconds": 1}',
        '{"microseconds": [true]}',
        '{"microseconds": ["1"]}',
        '{"microseconds": [1e999]}',
        '{"microseconds": [NaN]}',
        '{"microseconds": [' + "9" * 5000 + "]}",
        '{"microseconds": [1.0]}',
        '{"microseconds": [1.0], "microseconds": [2.0]}',
    ],
)
def test_other_content_is_no_entry(cache: ChoiceCache, text: str) -> None:
    cache.store(KEY, ENTRY)
    file_of(cache).write_text(text)
    assert cache.load(KEY) is None


def test_a_right_digest_does_not_excuse_other_content(cache: ChoiceCache) -> None:
    def written(**changed: object) -> bytes:
        content = {
            "format": private_cache.FORMAT,
            "key": KEY,
            "microseconds": [1.0, None],
            **changed,
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()
        return json.dumps(
            {**content, "digest": digest}, sort_keys=True, separators=(",", ":")
        ).encode()

    cache.store(KEY, ENTRY)
    file_of(cache).write_bytes(written())
    assert cache.load(KEY) == ChoiceTimes((1.0, None))
    changes: tuple[dict[str, object], ...] = (
        {"format": private_cache.FORMAT - 1},
        {"format": private_cache.FORMAT + 1},
        {"format": float(private_cache.FORMAT)},
        {"key": digest_of({})},
        {"microseconds": [1, None]},
        {"microseconds": [-1.0]},
        {"microseconds": [None]},
        {"microseconds": []},
        {"more": 1},
    )
    for changed in changes:
        file_of(cache).write_bytes(written(**changed))
        assert cache.load(KEY) is None, changed


def test_what_is_no_plain_file_is_no_entry(cache: ChoiceCache, tmp_path: Path) -> None:
    cache.store(KEY, ENTRY)
    path = file_of(cache)
    elsewhere = path.rename(tmp_path / "elsewhere")
    path.symlink_to(elsewhere)
    assert cache.load(KEY) is None
    path.unlink()
    os.mkfifo(path)
    assert cache.load(KEY) is None
    path.unlink()
    path.mkdir()
    assert cache.load(KEY) is None


def test_what_a_killed_writer_left_is_deleted_when_it_is_old(cache: ChoiceCache) -> None:
    cache.store(KEY, ENTRY)
    old = Path(cache.directory, f".{KEY}.json.0123456789abcdef.tmp")
    young = Path(cache.directory, f".{KEY}.json.fedcba9876543210.tmp")
    old.write_text("half")
    young.write_text("half")
    hour_ago = time.time() - 3600
    os.utime(old, (hour_ago, hour_ago))
    ChoiceCache(cache.directory).store(KEY, ENTRY)
    assert not old.exists()
    assert young.exists()


@pytest.mark.parametrize(
    "name",
    [
        "thesis.tmp",
        f"{KEY}.json.0123456789abcdef.tmp",
        f".{KEY}.json.0123456789abcde.tmp",
        f".{KEY}.json.0123456789abcdeg.tmp",
        f".{KEY.upper()}.json.0123456789abcdef.tmp",
        f".{KEY}.json.0123456789abcdef.tmp.tmp",
        f".{KEY}.json.0123456789abcdef.tmp\n",
    ],
)
def test_no_other_file_is_deleted_however_old(cache: ChoiceCache, name: str) -> None:
    cache.store(KEY, ENTRY)
    other = Path(cache.directory, name)
    other.write_text("not of the cache")
    os.utime(other, (0, 0))
    ChoiceCache(cache.directory).store(KEY, ENTRY)
    assert other.read_text() == "not of the cache"


def test_no_link_or_pipe_of_a_temporary_name_is_deleted(
    cache: ChoiceCache, tmp_path: Path
) -> None:
    cache.store(KEY, ENTRY)
    link, pipe = (Path(cache.directory, f".{KEY}.json.{digit * 16}.tmp") for digit in "12")
    link.symlink_to(tmp_path / "nowhere")
    os.mkfifo(pipe)
    for path in (link, pipe):
        os.utime(path, (0, 0), follow_symlinks=False)
    ChoiceCache(cache.directory).store(KEY, ENTRY)
    assert {link.name, pipe.name} <= set(os.listdir(cache.directory))


def test_nothing_is_made_where_others_decide_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, open_to_all = tmp_path / "theirs", tmp_path / "open"
    theirs.mkdir()
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    found = os.stat

    def changed(path: str, **options: bool) -> os.stat_result:
        result = found(path, **options)
        if path == str(theirs):
            return os.stat_result((*result[:4], os.getuid() + 1, *result[5:]))
        return result

    monkeypatch.setattr(os, "stat", changed)
    for directory in (theirs, open_to_all):
        for below in ("choices", "a/b/choices"):
            with pytest.raises(CacheRefusedError, match=rf"{directory.name}, above"):
                ChoiceCache(directory / below).store(KEY, ENTRY)
        assert os.listdir(directory) == []


def test_a_writer_that_fails_leaves_nothing(
    cache: ChoiceCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    cache.store(KEY, ENTRY)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        cache.store(KEY, ChoiceTimes((1.0,)))
    assert os.listdir(cache.directory) == [f"{KEY}.json"]
    assert cache.load(KEY) == ENTRY


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o770, 0o777, 0o1777])
def test_a_directory_that_others_can_write_to_is_refused(
    cache: ChoiceCache, mode: int
) -> None:
    cache.store(KEY, ENTRY)
    os.chmod(cache.directory, mode)
    for act in actions(cache):
        with pytest.raises(CacheRefusedError, match="written by other users"):
            act()
    os.chmod(cache.directory, 0o700)
    assert cache.load(KEY) == ENTRY


def test_a_directory_of_another_user_is_refused(
    cache: ChoiceCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.store(KEY, ENTRY)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    for act in actions(cache):
        with pytest.raises(CacheRefusedError, match="belongs to another user"):
            act()


def test_a_symbolic_link_is_refused(cache: ChoiceCache, tmp_path: Path) -> None:
    cache.store(KEY, ENTRY)
    link = tmp_path / "link"
    link.symlink_to(cache.directory)
    for act in actions(ChoiceCache(link)):
        with pytest.raises(CacheRefusedError, match="symbolic link"):
            act()


def test_a_directory_that_all_can_exchange_is_refused(tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir()
    cache = ChoiceCache(above / "between" / "choices")
    cache.store(KEY, ENTRY)
    above.chmod(0o777)
    for act in actions(cache):
        with pytest.raises(CacheRefusedError, match=r"above .* can be written by all"):
            act()
    above.chmod(0o1777)  # as /tmp: only the owner of what is in it can exchange it
    assert cache.load(KEY) == ENTRY


def test_a_directory_below_another_users_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ChoiceCache(tmp_path / "theirs" / "choices")
    cache.store(KEY, ENTRY)
    found = os.stat

    def changed(path: str, **options: bool) -> os.stat_result:
        result = found(path, **options)
        if path == str(tmp_path / "theirs"):
            return os.stat_result((*result[:4], os.getuid() + 1, *result[5:]))
        return result

    monkeypatch.setattr(os, "stat", changed)
    for act in actions(cache):
        with pytest.raises(CacheRefusedError, match=r"theirs, above .* another user"):
            act()


def actions(cache: ChoiceCache) -> list[Callable[[], object]]:
    return [lambda: cache.load(KEY), lambda: cache.store(KEY, ENTRY)]


def test_where_there_can_be_no_directory_nothing_is_found_and_storing_says_so(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    cache = ChoiceCache(tmp_path / "file" / "choices")
    assert cache.load(KEY) is None
    with pytest.raises(OSError, match="file"):
        cache.store(KEY, ENTRY)


def test_the_default_directory_is_that_of_the_users_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from platformdirs import user_cache_path

    monkeypatch.delenv(SETTING, raising=False)
    for caches in (str(tmp_path), "", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", caches)
        cache = default_cache()
        assert cache is not None
        assert Path(cache.directory) == user_cache_path("wrapperir") / "choices"


def test_the_setting_turns_the_cache_off_or_moves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "0")
    assert default_cache() is None
    monkeypatch.setenv(SETTING, str(tmp_path / "here"))
    cache = default_cache()
    assert cache is not None
    cache.store(KEY, ENTRY)
    assert (tmp_path / "here" / f"{KEY}.json").exists()


@pytest.mark.parametrize("setting", ["off", "1", "no", "relative/folder", "00", "./0"])
def test_a_setting_that_is_no_absolute_path_is_refused(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(SETTING, setting)
    with pytest.raises(CacheRefusedError, match=r"neither 0 nor an absolute path") as found:
        default_cache()
    assert f"{SETTING}={setting!r}" in str(found.value)
    assert list(tmp_path.iterdir()) == []


def test_a_home_directory_may_be_written_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "~/choices")
    cache = default_cache()
    assert cache is not None
    assert cache.directory == os.path.expanduser("~/choices")


def test_a_fresh_cache_is_the_default_here_and_in_a_child_and_goes(
    cache: ChoiceCache, monkeypatch: pytest.MonkeyPatch, process_server: ProcessServer
) -> None:
    monkeypatch.setenv(SETTING, cache.directory)
    cache.store(KEY, ENTRY)
    code = (
        "from wrapperir.tuning.choice_cache import ChoiceTimes, default_cache\n"
        f"cache, key = default_cache(), {KEY!r}\n"
        "print(cache.directory, cache.load(key))\n"
        "cache.store(key, ChoiceTimes((7.0,)))\n"
    )
    with fresh_choice_cache() as fresh:
        here = default_cache()
        assert here is not None
        assert here.directory == fresh.directory != cache.directory
        assert fresh.load(KEY) is None
        done = process_server.run("-c", code)
        assert done.stdout.split() == [fresh.directory, "None"]
        assert fresh.load(KEY) == ChoiceTimes((7.0,))
    assert not os.path.exists(fresh.directory)
    assert os.environ[SETTING] == cache.directory
    assert cache.load(KEY) == ENTRY


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
facts = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=6,
)
cases = st.dictionaries(st.text(), facts, max_size=4)


@given(cases, cases)
def test_cases_that_differ_in_any_part_have_other_keys(
    first: dict[str, object], second: dict[str, object]
) -> None:
    same = repr(_ordered(first)) == repr(_ordered(second))
    assert (digest_of(first) == digest_of(second)) == same


@given(cases.filter(bool), st.data())
def test_changing_one_part_of_a_case_changes_its_key(
    case: dict[str, object], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(case)))
    value = data.draw(facts)
    changed = {**case, name: value}
    same = repr(_ordered(changed)) == repr(_ordered(case))
    assert (digest_of(changed) == digest_of(case)) == same
    assert digest_of(dict(reversed(case.items()))) == digest_of(case)
    del changed[name]
    assert digest_of(changed) != digest_of(case)


def _ordered(value: object) -> object:
    """Return a value whose ``repr`` tells it from others: 1 from 1.0 and True, too."""
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [_ordered(item) for item in value]
    return value


@pytest.mark.parametrize("value", [{1: 2}, {None: 1}, b"x", {1, 2}, object(), 1j])
def test_what_json_cannot_tell_apart_is_no_fact(value: object) -> None:
    with pytest.raises(TypeError, match="fact"):
        digest_of({"a": [value]})


def test_a_number_that_is_not_finite_is_no_fact() -> None:
    with pytest.raises(ValueError, match="compliant"):
        digest_of({"a": float("nan")})


def test_no_entry_is_torn_or_mixed_when_writers_are_killed(tmp_path: Path) -> None:
    """32 processes share a cache for some seconds; one after another is killed."""
    directory = tmp_path / "choices"
    command = [sys.executable, "-I", str(HAMMER), private_cache.__file__, str(directory)]
    done = subprocess.run(
        [*command, "3", "32"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["killed"] >= 8  # as many as a busy machine allows
    assert len(found["said"]) == 32
    assert [said["wrong"] for said in found["said"]] == [[]] * 32
    assert sum(said["read"] for said in found["said"]) > 200
    assert sum(said["wrote"] for said in found["said"]) > 100
    # An entry that is there stays there: it is exchanged only for another whole one.
    assert sum(said["missed"] for said in found["said"]) <= 32 * 4
    names = [name for name in os.listdir(directory) if not name.startswith(".")]
    assert len(names) == 4
    cache = PrivateCache(directory)
    assert all(cache.load(name.removesuffix(".json")) for name in names)
