"""The cases that Triton kernels are timed with."""

from bench.lowering.triton_cases import gpu_cases
from wrapperir.ir import Access
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.schedule import plan_kernels


def test_cases_are_scheduled_for_a_gpu() -> None:
    cases = {case.name: case for case in gpu_cases()}
    for case in cases.values():
        assert {type.device.kind for type in case.graph().buffers.values()} == {"cuda"}
    # On a CPU, a row of a softmax is stored and loaded again.
    (launch,) = plan_kernels(cases["softmax 32768x1024 f32"].graph()).items
    assert isinstance(launch, KernelLaunch)
    assert [b.access for b in launch.kernel.buffers] == [Access.READ, Access.WRITE]
