"""Compiled programs with graph regions: their files, and replays by each loader."""

import json
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from tests.cpp_emitter.gpu_requests import FAKE_HEADERS
from tests.cpp_emitter.moved import on_gpu
from tests.cpp_emitter.test_regions import actions
from tests.cpp_emitter.test_streams import on_streams
from wrapperir.cli.main import main
from wrapperir.text import format_program
from wrapperir_cpp import build
from wrapperir_cpp.layout import LIBRARY, POOLS_LIBRARY, POOLS_NAME

LAUNCHES = 6
PROGRAM = on_streams(
    "".join(
        f"""\
  %a{index} = allocate f32[32]
  kernel_call @triton_add({f"%a{index - 1}" if index else "%x"}, %y, %a{index}, 32)
"""
        for index in range(LAUNCHES)
    )
    + "".join(f"  free %a{index}\n" for index in range(LAUNCHES - 1))
    + f"  return %a{LAUNCHES - 1}\n"
)


def command(*arguments: object) -> None:
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output


def compiled(folder: Path, name: str, headers: Path | None = FAKE_HEADERS) -> Path:
    """Return the directory of the program, whose name makes it a library of its own."""
    text = format_program(on_gpu(PROGRAM)).replace("@main", f"@{name}")
    (folder / f"{name}.wir").write_text(text)
    with patch.object(build, "_cuda_headers", lambda: headers):
        arguments = "--emitter", "cpp", "--graphs", "-o", folder / name
        command("compile", folder / f"{name}.wir", *arguments)
    return folder / name


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("compiled"), "first")


Process: TypeAlias = "subprocess.Popen[str]"


@pytest.fixture(scope="module")
def process(fake_environment: dict[str, str]) -> Generator[Process]:
    """Return a process whose children run programs."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cpp_emitter.fake_artifacts"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=fake_environment,
        cwd=Path(__file__).parents[2],
    ) as started:
        yield started
        assert started.stdin is not None
        started.stdin.close()


def run(
    process: Process, *paths: Path, loader: str = "wrapperir"
) -> tuple[list[list[str]], list[int]]:
    """Return what each call does to graphs, and how many pools live before and after."""
    request = {
        "paths": list(map(str, paths)),
        "loader": loader,
        "program": format_program(PROGRAM),
    }
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, "the process ended"
    answer: dict[str, Any] = json.loads(line)
    assert "error" not in answer, answer["error"]
    return [actions(log) for log in answer["logs"]], answer["pools"]


RECORDED = [["launch"], ["capture", "launch"] * 4 + ["replay"], *[["replay"]] * 4]


def test_a_directory_replays_in_another_place(
    directory: Path, tmp_path: Path, process: Process
) -> None:
    moved = shutil.copytree(directory, tmp_path / "moved")
    assert run(process, moved) == (RECORDED, [1, 0])


def test_a_package_replays(directory: Path, tmp_path: Path, process: Process) -> None:
    command("package", directory, tmp_path / "model.pt2")
    assert run(process, tmp_path / "model.pt2") == (RECORDED, [1, 0])


def test_the_functions_of_pytorch_s_loaders_replay(
    directory: Path, tmp_path: Path, process: Process
) -> None:
    unpacked = tmp_path / "unpacked"  # as these loaders do with a package
    unpacked.mkdir()
    for path in (directory / "cpp").rglob("*"):
        if path.suffix in {".so", ".bin", ".cubin"} or path.name == "launches.json":
            target = unpacked / path.relative_to(directory / "cpp")
            target.parent.mkdir(exist_ok=True)
            shutil.copy(path, target)
    assert run(process, unpacked, loader="pytorch") == (RECORDED, [1, 0])


def test_libraries_of_a_process_share_a_pool(
    directory: Path, tmp_path: Path, process: Process
) -> None:
    second = compiled(tmp_path, "second")
    logs, pools = run(process, directory, second)
    assert logs == [actions for actions in RECORDED for _ in range(2)]
    assert pools == [1, 0]


def test_without_cuda_s_headers_blocks_run(
    tmp_path: Path, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    plain = compiled(tmp_path, "plain", headers=None)
    (said,) = (record for record in caplog.records if record.name == "wrapperir.graphs")
    assert "graph regions are not recorded: CUDA's headers" in said.message
    assert not (plain / "cpp" / POOLS_LIBRARY).exists()
    assert run(process, plain) == ([["launch"]] * 6, [0, 0])


def test_the_library_of_pools_has_the_name_that_others_look_for(directory: Path) -> None:
    assert POOLS_NAME.encode() in (directory / "cpp" / POOLS_LIBRARY).read_bytes()
    assert POOLS_NAME.encode() in (directory / "cpp" / LIBRARY).read_bytes()
