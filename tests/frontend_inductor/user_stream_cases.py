"""Functions that use streams and events, and the same functions without them."""

from collections.abc import Callable
from typing import Any

import torch

from tests.frontend_inductor.gpu_cases import Case, several

# They carry no types.
Stream: Any = torch.Stream
Event: Any = torch.Event
accelerator: Any = torch.accelerator


def entered(x: torch.Tensor) -> torch.Tensor:
    """Work on a side stream, ordered by a wait and by an event."""
    current, side = accelerator.current_stream(), Stream(x.device)
    y = x + 1
    side.wait_stream(current)
    with side:
        z = y.sin() @ y
    done = Event(x.device)
    done.record(side)
    current.wait_event(done)
    return z + y


def two(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Work on two side streams, the second of which waits for the first.

    Inductor fuses the addition with the cosine and so moves it before the wait, and runs a
    part of the softmax on the current stream.
    """
    first, second = Stream(x.device), Stream(x.device)
    with first:
        y = torch.cumsum(x, 0) * 2
    halfway = Event(x.device)
    halfway.record(first)
    with second:
        z = x.cos()
        halfway.wait(second)
        w = torch.softmax(y + z, 1)
    accelerator.current_stream().wait_stream(second)
    return w * 2, z


def synchronized(x: torch.Tensor) -> torch.Tensor:
    """Streams that only the host orders."""
    side = Stream(x.device)
    with side:
        y = x.sin()
    side.synchronize()
    z = y.cumsum(0) + 1
    done = Event(x.device)
    done.record()
    done.synchronize()
    with side:
        w = z.cos() @ y
    accelerator.synchronize()
    return w + z


def copied(x: torch.Tensor) -> torch.Tensor:
    """Copies to the host and back on a side stream."""
    current, side = accelerator.current_stream(), Stream(x.device)
    y = x @ x
    side.wait_stream(current)
    with side:
        host = y.cpu()
        back = (host + 1).to(x.device)
    current.wait_stream(side)
    return back + y


def recorded(x: torch.Tensor) -> torch.Tensor:
    """An event of the current stream."""
    y = x @ x
    done = Event(x.device)
    done.record()
    return y + 1


def racing(x: torch.Tensor) -> torch.Tensor:
    """A use of a result of a side stream that nothing orders."""
    side = Stream(x.device)
    with side:
        y = x.sin() @ x
    return y @ y


def in_branch(x: torch.Tensor) -> torch.Tensor:
    """A stream in a nested block."""

    def inside(x: torch.Tensor) -> torch.Tensor:
        side = Stream(x.device)
        with side:
            y = x.sin()
        accelerator.current_stream().wait_stream(side)
        return y @ y

    result: torch.Tensor = torch.cond(x.sum() > 0, inside, torch.cos, (x,))
    return result


def _case(function: Callable[..., Any], reference: Callable[..., Any]) -> Case:
    return Case(function, several((8, 8)), reference=reference)


CASES = {
    "entered": _case(entered, lambda x: (x + 1).sin() @ (x + 1) + x + 1),
    "two": _case(
        two,
        lambda x: (torch.softmax(torch.cumsum(x, 0) * 2 + x.cos(), 1) * 2, x.cos()),
    ),
    "synchronized": _case(
        synchronized,
        lambda x: (x.sin().cumsum(0) + 1).cos() @ x.sin() + x.sin().cumsum(0) + 1,
    ),
    "copied": _case(copied, lambda x: 2 * (x @ x) + 1),
    "recorded": _case(recorded, lambda x: x @ x + 1),
    "racing": _case(racing, lambda x: (x.sin() @ x) @ (x.sin() @ x)),
    "in branch": _case(in_branch, lambda x: x),
}
"""Cases that are captured, and one, ``in branch``, that is refused."""
