"""What a wheel of the project holds."""

import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
SOURCES = {".py", ".cpp", ".h", ".in", ".js", ".css", ".j2"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    directory = tmp_path_factory.mktemp("wheel")
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(directory), versions=["standard"])
    return zipfile.ZipFile(path)


def test_top_level_names(wheel: zipfile.ZipFile) -> None:
    names = {name.split("/")[0] for name in wheel.namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {
        "wrapperir",
        "wrapperir_cpp",
        "wrapperir_fx",
        "wrapperir_python",
    }


def test_every_module_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    emitters = ROOT / "emitters"
    packages = [
        (ROOT, "wrapperir"),
        (emitters, "wrapperir_cpp"),
        (emitters, "wrapperir_fx"),
        (emitters, "wrapperir_python"),
    ]
    expected = {
        path.relative_to(root).as_posix()
        for root, package in packages
        for path in (root / package).rglob("*")
        if path.suffix in SOURCES
    }
    held = {n for n in wheel.namelist() if Path(n).suffix in SOURCES}
    assert held == expected


def test_no_hard_dependency_on_torch(wheel: zipfile.ZipFile) -> None:
    (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    requires = message_from_bytes(wheel.read(name)).get_all("Requires-Dist") or []
    required = [r for r in requires if "extra ==" not in r]
    assert required
    assert not [r for r in required if r.startswith(("torch", "triton", "hypothesis"))]
