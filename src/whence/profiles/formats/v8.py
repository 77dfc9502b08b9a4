"""V8's CPU profiles (.cpuprofile), read: what node --cpu-prof, Chrome's developer tools and vscode-js-profile write.

A tree of calls, and which node of it each sample was in, with microseconds between them. A sample counts 1 and the time
until the next one. Lines are counted from 0 there, and are where the function starts. Two forms: `nodes`, a list whose
nodes have `children`, and the older `head`, a tree. Reference: Chrome DevTools Protocol, Profiler.Profile.
"""

from __future__ import annotations

from array import array
from typing import Any

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.profiles.formats import json_text
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, ProfileData, SampleType, Timeline

ROOT = "(root)"
FILE_URL = "file://"
MICROSECOND = 1_000  # nanoseconds
IN_SECONDS = 1e11  # the older form's start and end are seconds, which are below this number of microseconds
MOST = 1 << 53  # microseconds, which doubles hold exactly
TYPES = (SampleType("samples", "count"), SampleType("time", "nanoseconds"))


def read(text: str, budget: Budget | None = None) -> ProfileData:
    """The profile in a document's text."""
    rule = "it has nodes, samples and times as V8 writes them"
    return json_text.made_of(text, "cpuprofile", rule, profile_of, budget)


def profile_of(document: dict[str, Any], budget: Budget) -> ProfileData:
    profile = ProfileData([*TYPES], default_type=1, stored=bounds.stored(budget))
    nodes = flat(document["head"]) if "head" in document else document["nodes"]
    budget.charge(bounds.LOCATION * len(nodes))
    parent: dict[int, int] = {}
    location: dict[int, int] = {}
    known: dict[Frame, int] = {}
    for node in nodes:
        for child in node.get("children") or ():
            parent[child if isinstance(child, int) else child["id"]] = node["id"]
        frame = frame_of(node.get("callFrame") or node)
        if frame.function != ROOT:
            if frame not in known:
                known[frame] = profile.location(NO_MAPPING, 0, (frame,))
            location[node["id"]] = known[frame]
    for node in nodes:  # V8's own output may have parents in place of children
        if isinstance(node.get("parent"), int):
            parent.setdefault(node["id"], node["parent"])
    times, start, end = times_of(document)
    samples = document.get("samples") or []
    rows: dict[int, int] = {}
    timeline = Timeline(values=[array("q"), array("q")])
    budget.charge(4 * bounds.ENTRY * len(samples))
    totals = array("q"), array("q")
    for at, (node, time) in enumerate(zip(samples, times, strict=False)):
        row = rows.get(node)
        if row is None:
            row = rows[node] = len(profile.samples.of)
            add(profile, stack_of(node, parent, location, budget))
            for column in totals:
                column.append(0)
        after = times[at + 1] if at + 1 < len(times) else max(end, time)
        values = 1, min(max(0, after - time), MOST) * MICROSECOND
        timeline.sample.append(row)
        timeline.time.append((time - start) * MICROSECOND)
        for total, event, value in zip(totals, timeline.values, values, strict=True):
            total[row] += value
            event.append(value)
    profile.samples.values = list(totals)
    profile.samples.timeline = timeline
    profile.duration_ns = min(max(0, end - start), MOST) * MICROSECOND
    return profile


def add(profile: ProfileData, stack: list[int]) -> None:
    samples = profile.samples
    samples.of.append(len(samples.first) - 1)
    samples.stack.extend(stack)
    samples.first.append(len(samples.stack))
    samples.labels.append(())


def stack_of(node: int, parent: dict[int, int], location: dict[int, int], budget: Budget) -> list[int]:
    """The locations from a node up to the root. ProfileError where that is no tree."""
    out = []
    steps = 0
    at: int | None = node
    while at is not None:
        if at in location:
            out.append(location[at])
        at = parent.get(at)
        steps += 1
        if steps > len(parent) + 1:
            raise ProfileError("cpuprofile", None, "its nodes are a tree", f"node {node} is below itself")
    budget.charge(bounds.SAMPLE + bounds.ENTRY * steps)
    return out


def flat(head: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes of a tree, each before its children."""
    out, waiting = [], [head]
    while waiting:
        node = waiting.pop()
        out.append(node)
        waiting += reversed(node.get("children") or ())
    return out


def frame_of(call: dict[str, Any]) -> Frame:
    """The function of a node; the line and column are where it starts.

    >>> frame_of({"functionName": "", "url": "file:///app/a.js", "lineNumber": 4, "columnNumber": 2})[:3]
    ('(anonymous)', '/app/a.js', 5)
    """
    name, file = str(call.get("functionName") or "(anonymous)"), str(call.get("url") or "")
    line = call.get("lineNumber", -1)
    known = isinstance(line, int) and 0 <= line < 1 << 31 and bool(file)
    number = line + 1 if known else 0
    return Frame(name, file.removeprefix(FILE_URL), number, start_line=number)


def times_of(document: dict[str, Any]) -> tuple[list[int], int, int]:
    """When each sample was taken, the start and the end, in microseconds."""
    older = "timestamps" in document
    began = document.get("startTime", 0)
    scale = 1_000_000 if older and began < IN_SECONDS else 1
    start, end = microseconds(began, scale), microseconds(document.get("endTime", 0), scale)
    if older:
        return [microseconds(one) for one in document["timestamps"]], start, end
    times, now = [], start
    for step in document.get("timeDeltas") or ():
        now = microseconds(now + step)
        times.append(now)
    return times, start, end


def microseconds(value: Any, scale: int = 1) -> int:
    """A time as whole microseconds. ValueError for what is no number."""
    if not isinstance(value, int | float) or value != value:
        raise ValueError("times are numbers")
    return int(max(-MOST, min(value * scale, MOST)))
