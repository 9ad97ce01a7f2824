"""The distribution of a device of PyTorch's own is built, and passes its own tests."""

import re
from pathlib import Path

import pytest

from tests.forked_processes import ProcessServer
from tests.plugin.own_tests import PLUGINS, check_own_tests


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_its_own_tests_pass(tmp_path: Path, process_server: ProcessServer) -> None:
    check_own_tests(process_server, "wrapperir-device-sim", tmp_path)


def test_the_guide_has_the_counts_of_its_lines() -> None:
    guide = PLUGINS.parent / "docs" / "guides" / "private-device.md"
    package = PLUGINS / "wrapperir-device-sim" / "wrapperir_sim"
    rows = re.findall(r"^\| (\d+) \| `(\S+)` \|", guide.read_text("utf-8"), re.MULTILINE)
    counts = {file: int(count) for count, file in rows}
    assert counts == {
        str(path.relative_to(package)): len(path.read_text("utf-8").splitlines())
        for path in package.rglob("*.*")
        if path.suffix in (".py", ".cpp", ".h")
    }
    assert f"| {sum(counts.values())} | | in all |" in guide.read_text("utf-8")
    assert sum(counts.values()) <= 500
