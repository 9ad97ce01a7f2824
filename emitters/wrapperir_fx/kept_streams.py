"""What a call that fails leaves current: the streams and the device that were so before."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

import torch
from torch.fx import Graph

from wrapperir.emit.contract import Loaded, Value
from wrapperir_fx import stream_functions


def keep_streams(call: Loaded, graph: Graph) -> Loaded:
    """Return what runs ``call``, whose graph may enter streams and fail before it exits."""
    nodes = graph.find_nodes(op="call_function", target=stream_functions.stream)
    given = [node.args[0] for node in nodes]
    devices = {device for device in given if isinstance(device, torch.device)}
    indices = sorted(device.index for device in devices if device.type == "cuda")
    if not indices:
        return call

    def run(inputs: list[Value]) -> tuple[Value, ...]:
        device = torch.cuda.current_device()
        streams = [torch.cuda.current_stream(index) for index in indices]
        try:
            return call(inputs)
        except BaseException:
            for stream in streams:
                torch.cuda.set_stream(stream)
            torch.cuda.set_device(device)
            raise

    return run
