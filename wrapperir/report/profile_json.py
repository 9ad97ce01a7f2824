"""Profiles as JSON."""

import json

from wrapperir.report.profile import LineProfile, Profile


def format_profile_json(profile: Profile) -> str:
    """Return a profile as a JSON object, on several lines.

    Lines and kernels refer to each other by the index of the line in ``lines``.
    """
    numbers = {line.path: index for index, line in enumerate(profile.lines)}
    document = {
        "program": profile.program,
        "emitter": profile.emitter,
        "repeats": profile.repeats,
        "symbols": dict(profile.symbols),
        "unprofiled_ns": profile.unprofiled_ns,
        "profiled_ns": profile.profiled_ns,
        "mark_ns": profile.mark_ns,
        "marks": profile.marks,
        "opened_regions": profile.opened_regions,
        "entry_ns": profile.entry_ns,
        "return_ns": profile.return_ns,
        "peak_bytes": profile.peak_bytes,
        "peaks": [
            {"memory": each.memory, "bytes": each.bytes, "line": each.number}
            for each in profile.peaks
        ],
        "allocator_peak_bytes": profile.allocator_peak_bytes,
        "lines": [_line_object(line) for line in profile.lines],
        "kernels": [
            {
                "name": kernel.name,
                "calls": kernel.calls,
                "ns": kernel.ns,
                "resolution_ns": kernel.resolution_ns,
                "moved_bytes": kernel.moved_bytes,
                "touched": kernel.touched,
                "bandwidth": kernel.bandwidth,
                "lines": [numbers[line.path] for line in kernel.lines],
            }
            for kernel in profile.kernels
        ],
        "slices": [
            {
                "lane": each.lane,
                "line": each.line,
                "begin_ns": each.begin_ns,
                "ns": each.ns,
            }
            for each in profile.slices
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _line_object(line: LineProfile) -> dict[str, object]:
    return {
        "path": line.path,
        "line": line.number,
        "text": line.text,
        "kernel": line.kernel,
        "operator": line.operator,
        "device": line.device,
        "count": line.count,
        "host_ns": line.host_ns,
        "device_ns": line.device_ns,
        "gap_ns": line.gap_ns,
        "resolution_ns": line.resolution_ns,
        "read_bytes": line.read_bytes,
        "written_bytes": line.written_bytes,
        "touched": line.touched,
        "held_bytes": line.held_bytes,
        "bandwidth": line.bandwidth,
        "nodes": line.nodes,
        "source": line.source,
        "modules": line.modules,
        "equal_to": line.equal_to,
    }
