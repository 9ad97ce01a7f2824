"""The OpenCL distribution is built, installed, and passes its own tests on a platform."""

from pathlib import Path

import pytest

from tests.plugin.own_tests import check_own_tests


@pytest.mark.timeout(900)
def test_its_own_tests_pass(tmp_path: Path) -> None:
    check_own_tests("wrapperir-emitter-opencl", tmp_path)
