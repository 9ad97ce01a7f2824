"""Process groups of the conformance kit."""

from typing import Any

from torch import distributed
from torch._C import _distributed_c10d

from wrapperir.testing.conformance_cases import CASES
from wrapperir.testing.process_groups import make_groups

c10d: Any = _distributed_c10d  # its types are not those of the installed release


def test_groups_that_pytorch_forgot_are_made_again() -> None:
    program = next(case.program for case in CASES if case.program.groups)
    make_groups(program)
    store = c10d.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    distributed.destroy_process_group()
    make_groups(program)
    for group in program.groups:
        assert c10d._resolve_process_group(group.name) is not None
