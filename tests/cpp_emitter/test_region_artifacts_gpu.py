"""Compiled programs with graph regions on a GPU, each loaded in a process of its own."""

import json
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
        for _ in range(5):
            x = torch.relu(torch.mm(x, self.weight) + 1)
        return x

def example_inputs():
    return (torch.ones(16, 64, device="cuda"),)
"""

LOADS = """\
import json, sys
import torch
from model import Chain

if sys.argv[1] == "pytorch":
    program = torch._inductor.aoti_load_package(sys.argv[2])
else:
    import wrapperir
    program = wrapperir.load(sys.argv[2])
model, kept = Chain(), []
with torch.no_grad():
    for _ in range(20):
        x = torch.randn(16, 64, device="cuda")
        result = program(x)
        kept.append((result[0] if isinstance(result, (tuple, list)) else result, model(x)))
    for found, wanted in kept:
        torch.testing.assert_close(found, wanted)
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        program(x)
        torch.cuda.synchronize()
print(json.dumps(sorted({event.name for event in profile.events()})))
"""

RUN = r"""
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <ATen/ops/full.h>

#include <cstdio>

int main(int, char** arguments) {
  torch::inductor::AOTIModelPackageLoader loader(arguments[1]);
  for (int i = 0; i < 6; ++i) {
    auto x = at::full({16, 64}, 1 + i, at::device(at::kCUDA).dtype(at::kFloat));
    std::printf("%.9g\n", loader.run({x})[0].sum().item<double>());
  }
}
"""


def run(*arguments: object, folder: Path) -> str:
    command = list(map(str, arguments))
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    assert "is not replayed" not in done.stderr
    return done.stdout


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


@pytest.mark.parametrize(
    ("loader", "path"),
    [
        ("wrapperir", "cpp"),
        ("wrapperir", "python"),
        ("wrapperir", "model.pt2"),
        ("pytorch", "model.pt2"),
    ],
)
def test_each_kind_of_artifact_replays(folder: Path, loader: str, path: str) -> None:
    names: Any = json.loads(run(sys.executable, "loads.py", loader, path, folder=folder))
    # The profiler sees each launch of a kernel, and each operator of PyTorch.
    assert not any("LaunchKernel" in name for name in names), names
    assert "aten::mm" not in names


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
        torch.testing.assert_close(sums, [model(x).sum().item() for x in inputs])
