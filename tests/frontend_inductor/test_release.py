"""Releases of PyTorch that the Inductor adapter supports."""

import pytest
import torch

from tests.forked_processes import ProcessServer
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.inductor.release import check_release


@pytest.mark.parametrize(
    "version", ["2.11.0", "2.12.1+cu130", "2.13.0+cpu", "2.13.0a0+git1"]
)
def test_supported_releases_pass(version: str) -> None:
    check_release(version)
    check_release(torch.__version__)


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        ("1.13.1", "pip install 'torch>=2.11'"),
        ("2.10.0+cu128", "pip install 'torch>=2.11'"),
        ("2.14.1", "upgrade wrapperir, or pip install 'torch==2.13.*'"),
        ("3.0.0", "upgrade wrapperir, or pip install 'torch==2.13.*'"),
    ],
)
def test_other_releases_are_refused(version: str, hint: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        check_release(version)
    (found,) = caught.value.diagnostics
    assert found.code is Code.UNSUPPORTED_RELEASE
    assert version in found.message
    assert found.hint == hint


USES = {
    "torch.compile": "torch.compile(torch.sin, backend='wrapperir')(torch.ones(2))",
    "capture": "from wrapperir.frontend.inductor import capture",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_the_first_use_of_another_release_says_so(
    use: str, process_server: ProcessServer
) -> None:
    code = f"import torch; torch.__version__ = '2.14.1'; {use}"
    done = process_server.run("-c", code)
    assert done.returncode == 1
    assert "WIR656: PyTorch 2.14.1 is newer than the releases" in done.stderr
