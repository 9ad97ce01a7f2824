"""Kills one of two ranks before it starts a collective that the other waits for.

``python -m tests.emit.killed_rank EMITTER`` prints the error that the other rank gets.
"""

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import distributed, multiprocessing

from wrapperir.emit import compile_program
from wrapperir.text import parse_program

PROGRAM = """wrapperir 1

program @main(%x: mutated f32[4]) {
  group "0" size 2

  %w = collective all_reduce(sum) "0" reads(%x) writes(%x)
  wait_collective %w reads(%x) writes(%x)
  return %x
}
"""
SECONDS = 20
"""The time that the group gives a collective."""


def wait_for_the_killed(rank: int, emitter: str, meeting: str) -> None:
    """Start a collective, on a rank that is not killed before."""
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=SECONDS),
    )
    call = compile_program(parse_program(PROGRAM), emitter=emitter)
    call([torch.ones(4)])
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        call([torch.ones(4)])
    except RuntimeError as error:
        print(f"RuntimeError: {error}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        start: Any = vars(multiprocessing)["start_processes"]
        started = start(
            wait_for_the_killed,
            (sys.argv[1], meeting),
            nprocs=2,
            start_method="fork",
            join=False,
        )
        for process in started.processes:
            process.join()
        print([process.exitcode for process in started.processes])
