"""The distribution of a device of PyTorch's own is built, and passes its own tests."""

from pathlib import Path

import pytest

from tests.plugin.own_tests import check_own_tests


@pytest.mark.timeout(600)
def test_its_own_tests_pass(tmp_path: Path) -> None:
    check_own_tests("wrapperir-device-sim", tmp_path)
