"""Reader of V8's CPU profiles (.cpuprofile) of node --cpu-prof, Chrome's developer tools and vscode-js-profile.

A profile is a tree of calls, the node of each sample, and the microseconds between samples. A sample counts 1, and the
time until the next sample. Lines count from 0, and are those where functions start. Two forms: `nodes`, a list whose
nodes have `children`, and the older `head`, a tree. Reference: Chrome DevTools Protocol, Profiler.Profile.
"""

from __future__ import annotations

from typing import Any

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.profiles.formats import json_text
from whence.profiles.formats.timed_samples import TimedSamples
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, ProfileData, SampleType

ROOT = "(root)"
FILE_URL = "file://"
MICROSECOND = 1_000  # nanoseconds
MIN_MICROSECONDS = 1e11  # smaller start and end times of the older form are seconds
MAX_TIME = 1 << 53  # microseconds: doubles are exact up to here
TYPES = (SampleType("samples", "count"), SampleType("time", "nanoseconds"))


def read(text: str, budget: Budget | None = None) -> ProfileData:
    """Read the text of a document."""
    return json_text.parsed(text, "cpuprofile", profile_of, budget)


def profile_of(document: dict[str, Any], budget: Budget) -> ProfileData:
    profile = ProfileData(default_type=1, stored=bounds.stored(budget))
    nodes = flat(document["head"]) if "head" in document else document["nodes"]
    budget.charge(bounds.LOCATION * len(nodes))
    parent: dict[int, int] = {}
    location: dict[int, int] = {}
    locations: dict[Frame, int] = {}
    for node in nodes:
        for child in node.get("children") or ():
            parent[child if isinstance(child, int) else child["id"]] = node["id"]
        frame = frame_of(node.get("callFrame") or node)
        if frame.function != ROOT:
            if frame not in locations:
                locations[frame] = profile.location(NO_MAPPING, 0, (frame,))
            location[node["id"]] = locations[frame]
    for node in nodes:  # some writers store parents instead of children
        if isinstance(node.get("parent"), int):
            parent.setdefault(node["id"], node["parent"])
    times, start, end = times_of(document)
    samples = document.get("samples") or []
    rows: dict[int, int] = {}
    out = TimedSamples(profile)
    count, duration = map(out.type, TYPES)
    budget.charge(4 * bounds.ENTRY * len(samples))
    for index, (node, time) in enumerate(zip(samples, times, strict=False)):
        row = rows.get(node)
        if row is None:
            row = rows[node] = out.add_sample(stack_of(node, parent, location, budget))
        after = times[index + 1] if index + 1 < len(times) else max(end, time)
        value = min(max(0, after - time), MAX_TIME) * MICROSECOND
        out.add_event(row, (time - start) * MICROSECOND, ((count, 1), (duration, value)))
    out.finish()
    profile.duration_ns = min(max(0, end - start), MAX_TIME) * MICROSECOND
    return profile


def stack_of(node: int, parent: dict[int, int], location: dict[int, int], budget: Budget) -> list[int]:
    """Return the locations from a node to the root. Raises ProfileError for a cycle."""
    out = []
    steps = 0
    ancestor: int | None = node
    while ancestor is not None:
        if ancestor in location:
            out.append(location[ancestor])
        ancestor = parent.get(ancestor)
        steps += 1
        if steps > len(parent) + 1:
            raise ProfileError("cpuprofile", None, f"node {node} is its own ancestor")
    budget.charge(bounds.SAMPLE + bounds.ENTRY * steps)
    return out


def flat(head: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the nodes of a tree, each before its children."""
    out, waiting = [], [head]
    while waiting:
        node = waiting.pop()
        out.append(node)
        waiting += reversed(node.get("children") or ())
    return out


def frame_of(call: dict[str, Any]) -> Frame:
    """Return the function of a node, with the line where it starts.

    >>> frame_of({"functionName": "", "url": "file:///app/a.js", "lineNumber": 4, "columnNumber": 2})[:3]
    ('(anonymous)', '/app/a.js', 5)
    """
    name, file = str(call.get("functionName") or "(anonymous)"), str(call.get("url") or "")
    line = call.get("lineNumber", -1)
    is_valid = isinstance(line, int) and 0 <= line < 1 << 31 and bool(file)
    number = line + 1 if is_valid else 0
    return Frame(name, file.removeprefix(FILE_URL), number, start_line=number)


def times_of(document: dict[str, Any]) -> tuple[list[int], int, int]:
    """Return the time of each sample, the start and the end, in microseconds."""
    older = "timestamps" in document
    start_time = document.get("startTime", 0)
    scale = 1_000_000 if older and start_time < MIN_MICROSECONDS else 1
    start, end = microseconds(start_time, scale), microseconds(document.get("endTime", 0), scale)
    if older:
        return [microseconds(time) for time in document["timestamps"]], start, end
    times, now = [], start
    for step in document.get("timeDeltas") or ():
        now = microseconds(now + step)
        times.append(now)
    return times, start, end


def microseconds(value: Any, scale: int = 1) -> int:
    """Return a time as whole microseconds. Raises ValueError if it is not a number."""
    if not isinstance(value, int | float) or value != value:
        raise ValueError(f"the time {value!r} is not a number")
    return int(max(-MAX_TIME, min(value * scale, MAX_TIME)))
