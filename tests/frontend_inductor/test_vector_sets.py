"""Checks of vector sets are made once for all processes, and only when asked for."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor.cpu_vec_isa import VecAMX, VecAVX2, VecAVX512, VecISA

from wrapperir.frontend.inductor import vector_sets
from wrapperir.frontend.inductor.compilation import own_settings
from wrapperir.frontend.inductor.vector_sets import recalling_vector_sets


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the codes that Inductor's check is given; it passes those with ``good``."""
    made: list[str] = []

    def check(kind: VecISA, code: str) -> bool:
        made.append(code)
        return "good" in code

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(VecISA, "check_build", check)
    monkeypatch.setattr(vector_sets, "_passed_here", set())
    return made


def checked(code: str, kind: VecISA | None = None) -> bool:
    """Return the result of a check in the context."""
    with recalling_vector_sets:
        return (VecAVX2() if kind is None else kind).check_build(code)


def test_a_check_that_passed_is_not_made_again(checks: list[str]) -> None:
    assert [checked("good"), checked("good")] == [True, True]
    assert checks == ["good"]


def test_a_check_that_failed_is_made_again(checks: list[str]) -> None:
    assert [checked("bad"), checked("bad")] == [False, False]
    assert checks == ["bad", "bad"]


def test_each_code_and_each_flag_has_its_check(checks: list[str]) -> None:
    other: Any = VecAVX2()
    other._arch_flags += " -mfma4"
    assert checked("good")
    assert checked("good", other)
    assert checked("good too")
    assert checks == ["good", "good", "good too"]


def test_what_passed_with_a_set_is_not_checked_with_those_it_includes(
    checks: list[str],
) -> None:
    assert checked("good", VecAMX())
    assert checks == ["good"]
    assert checked("good", VecAVX512())
    assert checked("good", VecAVX2())
    assert checks == ["good"]
    assert checked("good, of others", VecAVX512())
    assert not checked("bad", VecAVX2())
    assert checks == ["good", "good, of others", "bad"]


def test_what_passed_with_a_set_is_checked_with_those_that_include_it(
    checks: list[str],
) -> None:
    for kind in VecAVX2(), VecAVX512(), VecAMX():
        assert checked("good", kind)
    assert checks == ["good"] * 3


def test_checks_are_made_where_there_is_no_cache(
    checks: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [checked("good"), checked("good")] == [True, True]
    assert checks == ["good", "good"]


def test_compiling_makes_no_check_that_inductor_does_not(checks: list[str]) -> None:
    with own_settings():
        pass
    assert checks == []


def test_the_scope_of_a_compilation_recalls_checks(checks: list[str]) -> None:
    for _ in range(2):
        with own_settings():
            assert VecAVX2().check_build("good")
    assert checks == ["good"]


def test_inductors_check_is_back_after_nested_and_failing_contexts(
    checks: list[str],
) -> None:
    stock = VecISA.check_build
    with pytest.raises(KeyError), recalling_vector_sets, recalling_vector_sets:
        raise KeyError
    assert VecISA.check_build is stock


def test_inductors_check_is_back_when_the_last_thread_leaves(checks: list[str]) -> None:
    stock = VecISA.check_build
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        with recalling_vector_sets:
            entered.set()
            left.wait(10)

    thread = threading.Thread(target=other)
    with recalling_vector_sets:
        thread.start()
        assert entered.wait(10)
    assert VecISA.check_build is not stock
    left.set()
    thread.join()
    assert VecISA.check_build is stock


def test_a_compilation_for_other_devices_starts_no_process(
    checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    def refuse(*_: object) -> bool:
        raise AssertionError("a vector set was checked")

    monkeypatch.setattr(VecISA, "check_build", refuse)
    x = torch.empty(8, device="meta")
    function: Any = torch.compile(compiled, backend="wrapperir")  # pyright: ignore
    assert function(x).device.type == "meta"
