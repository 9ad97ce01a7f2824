"""Inductor's own processes compile nothing of what is captured."""

from typing import Any
from unittest import mock

import pytest
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codegen import triton

from wrapperir.frontend.inductor.compilation import capturing, own_settings
from wrapperir.frontend.inductor.session import Session


def refused(*_: object) -> Any:
    raise AssertionError("Inductor compiles a kernel")


def test_inductor_compiles_no_kernel_that_it_has_written() -> None:
    stock: Any = triton.async_compile
    with (
        mock.patch.object(AsyncCompile, "use_process_pool", refused),
        capturing(Session(refused, False)),
    ):
        processes: Any = triton.async_compile
        assert processes.use_process_pool() is False
    assert triton.async_compile is stock


@pytest.mark.parametrize("setting", [None, "max_autotune", "benchmark_fusion"])
def test_processes_are_started_early_only_to_tune(setting: str | None) -> None:
    defined = vars(AsyncCompile)["wakeup"]
    with mock.patch.object(AsyncCompile, "wakeup") as wakeup:
        with own_settings(), config.patch({} if setting is None else {setting: True}):
            AsyncCompile.wakeup()
        assert wakeup.call_count == (setting is not None)
        AsyncCompile.wakeup()
        assert wakeup.call_count == 1 + (setting is not None)
    with own_settings():
        pass
    assert vars(AsyncCompile)["wakeup"] is defined
