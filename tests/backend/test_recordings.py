"""What graph regions have recorded is dropped when PyTorch's compiler is reset."""

import torch

from wrapperir.emit.recordings import note_recordings


class Program:
    """A loaded program that notes what it is asked for."""

    drops = 0

    def drop_recordings(self) -> None:
        self.drops += 1


def test_a_reset_of_the_compiler_drops_recordings() -> None:
    program = Program()
    note_recordings(program)
    compiled = torch.compile(
        torch.neg,
        backend="wrapperir",
        options={"frontend": "lowering", "graph_collectives": True},
    )
    x = torch.ones(3)
    assert torch.equal(compiled(x), -x)
    assert program.drops == 0
    torch.compiler.reset()
    assert program.drops == 1
