"""The OpenCL distribution is built, installed, and passes its own tests on a platform."""

from pathlib import Path

import pytest

from tests.forked_processes import ProcessServer
from tests.plugin.own_tests import check_own_tests


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_own_tests_pass(tmp_path: Path, process_server: ProcessServer) -> None:
    check_own_tests(process_server, "wrapperir-emitter-opencl", tmp_path)
