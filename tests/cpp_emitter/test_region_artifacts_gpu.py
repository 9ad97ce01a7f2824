"""Compiled programs with graph regions on a GPU, each loaded in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from wrapperir.kernels import find_compiler

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(torch.version.hip is not None, reason="needs the CUDA driver"),
]

MODEL = """\
import torch

class Chain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(64, 64, device="cuda") / 8)

    def forward(self, x):
        for _ in range(3):
            x = torch.relu(torch.mm(x, self.weight) + 1)
            x = torch.topk(x, 64).values
        return x

def example_inputs():
    return (torch.ones(16, 64, device="cuda"),)
"""
"""A profiler sees ``topk``, which emitted C++ calls through PyTorch, except in replays."""

LOADS = """\
import json, sys
import torch
from model import Chain

if sys.argv[1] == "pytorch":
    from torch._inductor import aoti_load_package
    program = aoti_load_package(sys.argv[2])
else:
    import wrapperir
    program = wrapperir.load(sys.argv[2])
model, kept, names = Chain(), [], []
kinds = [torch.profiler.ProfilerActivity.CPU]
with torch.no_grad():
    for number in range(12):
        x = torch.randn(16, 64, device="cuda")
        with torch.profiler.profile(activities=kinds) as seen:
            result = program(x)
        names.append(any(event.name == "aten::topk" for event in seen.events()))
        kept.append((result[0] if isinstance(result, (tuple, list)) else result, model(x)))
    for found, wanted in kept:
        torch.testing.assert_close(found, wanted)
print(json.dumps(names))
"""

RUN = r"""
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <ATen/ops/full.h>

#include <cstdio>
#include <cstdlib>

int main(int, char** arguments) {
  {
    torch::inductor::AOTIModelPackageLoader loader(arguments[1]);
    for (int i = 0; i < 6; ++i) {
      auto x = at::full({16, 64}, 1 + i, at::device(at::kCUDA).dtype(at::kFloat));
      std::printf("%.9g\n", loader.run({x})[0].sum().item<double>());
    }
  }
  // Some builds of PyTorch abort when a program that only links them ends.
  std::fflush(stdout);
  std::_Exit(0);
}
"""


def run(*arguments: object, folder: Path) -> str:
    """Return what a command prints; one that hangs is made to show its stack."""
    process = subprocess.Popen(
        list(map(str, arguments)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )
    try:
        out, said = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        out, said = process.communicate(timeout=20)
        raise AssertionError(f"{arguments} hangs\n{out}\n{said}") from None
    assert process.returncode == 0, (process.returncode, out, said)
    assert "is not replayed" not in said
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("compiled")
    (made / "model.py").write_text(MODEL)
    (made / "loads.py").write_text(LOADS)
    wrapperir = sys.executable, "-m", "wrapperir.cli"
    for emitter in ("cpp", "python"):
        options = "--frontend", "inductor", "--emitter", emitter, "--graphs", "-o", emitter
        run(*wrapperir, "compile", "model.py:Chain", *options, folder=made)
    run(*wrapperir, "package", "cpp", "model.pt2", folder=made)
    return made


def test_each_kind_of_artifact_replays(folder: Path) -> None:
    for loader, path in (
        *(("wrapperir", path) for path in ("cpp", "python", "model.pt2")),
        ("pytorch", "model.pt2"),
    ):
        out = run(sys.executable, "loads.py", loader, path, folder=folder)
        seen: list[bool] = json.loads(out)
        assert seen[0], (loader, path)
        assert not any(seen[2:]), (loader, path, seen)


def test_pytorch_s_cpp_loader_replays(folder: Path) -> None:
    root = Path(torch.__file__).parent
    (folder / "run.cpp").write_text(RUN)
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    flags = [
        *("-std=c++20", "-O0", "-w", abi, "-isystem", str(root / "include")),
        *(f"-L{root / 'lib'}", "-Wl,--no-as-needed", "-ltorch_cuda", "-ltorch_cpu"),
        *("-lc10_cuda", "-lc10", f"-Wl,-rpath,{root / 'lib'}"),
    ]
    flags += ["-Wl,--unresolved-symbols=ignore-in-shared-libs"]
    find_compiler().run(["run.cpp", *flags, "-o", "run"], folder, "the loader")
    sums = list(map(float, run("./run", "model.pt2", folder=folder).split()))
    namespace: dict[str, Any] = {}
    exec(compile(MODEL, "model.py", "exec"), namespace)
    with torch.no_grad():
        model = namespace["Chain"]()
        inputs = (torch.full((16, 64), 1.0 + i, device="cuda") for i in range(6))
        expected = [model(x).sum().item() for x in inputs]
        torch.testing.assert_close(sums, expected, rtol=1e-5, atol=1e-4)
