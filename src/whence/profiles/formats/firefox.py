"""Firefox Profiler's processed format, written: what profiler.firefox.com and its command line open.

Version 60 of it: tables of strings, stacks, frames, functions, resources and sources that all threads share. Newer
front ends bring it up to date themselves; older ones know it since 2025.

    threads     one for each thread of each process that the samples' labels name; one alone where they name none
    samples     in order of time where that is known; else one for each sample, a period apart from one another
    weights     of the profile's default sample type: times in milliseconds, bytes, or counts
    frames      an inlined call has a frame of its own at the address of its caller (inlineDepth); addresses count from
                the first byte of the file
    categories  the kernel, generated code, the program's files, and what is in none of them
    markers     samples that the recorder lost

Reference: github.com/firefox-devtools/profiler, src/types/profile.ts and docs-developer/CHANGELOG-formats.md.
"""

from __future__ import annotations

from array import array
from typing import Any

from whence._version import __version__
from whence.profiles.formats.breakpad import debug_id
from whence.profiles.formats.json_text import written
from whence.samples import bounds
from whence.samples.addresses import is_runtime
from whence.samples.kinds import AddressKind, kind_of
from whence.samples.model import Mapping, ProfileData
from whence.samples.stacks import DisplayFrame, ProfileStacks
from whence.samples.threads import ProfileThread, shown, threads_of

VERSION = 60
GECKO_VERSION = 29  # of the format that Firefox's own recorder writes: readers ask that it is there
NO_INDEX, NO_ADDRESS = -1, -1
LIBRARY, NO_RESOURCE_TYPE = 1, 0  # types of resources
INSTANT = 0  # a marker's phase
MILLISECOND = 1_000_000  # in nanoseconds
NANOSECONDS = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": MILLISECOND, "seconds": 1_000_000_000}
OTHER, USER, KERNEL, GENERATED = range(4)
CATEGORIES = (("Other", "grey"), ("User", "yellow"), ("Kernel", "orange"), ("Generated code", "purple"))
CATEGORY = {
    AddressKind.FILE: USER,
    AddressKind.KERNEL: KERNEL,
    AddressKind.PAGE: KERNEL,
    AddressKind.GENERATED: GENERATED,
    AddressKind.NOWHERE: OTHER,
}
LOST = "LostSamples"
LOST_SCHEMA = {
    "name": LOST,
    "tooltipLabel": "{marker.data.count} samples lost",
    "tableLabel": "{marker.data.count} samples lost",
    "chartLabel": "{marker.data.count} samples lost",
    "display": ["marker-chart", "marker-table", "timeline-overview"],
    "fields": [{"key": "count", "label": "Samples lost", "format": "integer"}],
}
HALF_BIT = 63  # of an address: the upper half is the kernel's
STACK_BYTES = 250  # of a row of the stack table, with what finds it


def write(profile: ProfileData, name: str = "") -> str:
    """The profile as the front end's JSON, under a name."""
    return written(document_of(profile, name or "profile"))


def document_of(profile: ProfileData, name: str) -> dict[str, Any]:
    tables = FirefoxTables(profile)
    interval = _interval(profile)
    threads, of = threads_of(profile.samples)
    first = _first_time(profile)
    parts = _samples(profile, tables, threads, of, interval, first)
    places = {(thread.pid, thread.tid): at for at, thread in enumerate(threads)}
    markers = [_no_markers() for _ in threads]
    for lost in profile.lost:
        at = places.get((lost.pid, lost.tid), 0)
        time = max(0.0, (lost.time - first) / MILLISECOND) if lost.time else 0.0
        add_marker(markers[at], tables.string("Lost samples"), time, {"type": LOST, "count": lost.samples})
    main: dict[int, ProfileThread] = {}
    for thread in threads:
        if thread.pid not in main or thread.tid == thread.pid:
            main[thread.pid] = thread
    return {
        "meta": {
            "interval": interval,
            "startTime": profile.time_ns / MILLISECOND,
            "processType": 0,
            "product": name,
            "importedFrom": f"whence {__version__}",
            "stackwalk": 1,
            "version": GECKO_VERSION,
            "preprocessedProfileVersion": VERSION,
            "symbolicated": True,
            "usesOnlyOneStackType": True,
            "doesNotUseFrameImplementation": True,
            "sourceCodeIsNotOnSearchfox": True,
            "categories": [{"name": one, "color": color, "subcategories": ["Other"]} for one, color in CATEGORIES],
            "markerSchema": [LOST_SCHEMA],
        },
        "libs": tables.libs,
        "pages": [],
        "shared": tables.shared(),
        "threads": [
            {
                "processType": "default",
                "processStartupTime": 0,
                "processShutdownTime": None,
                "registerTime": 0,
                "unregisterTime": None,
                "pausedRanges": [],
                "name": thread.name or shown(thread) or name,
                "processName": main[thread.pid].process or main[thread.pid].name or name,
                "isMainThread": main[thread.pid] is thread,
                "pid": str(thread.pid),
                "tid": thread.tid,
                "samples": samples,
                "markers": found,
            }
            for thread, samples, found in zip(threads, parts, markers, strict=True)
        ],
    }


def _no_markers() -> dict[str, Any]:
    columns: dict[str, Any] = {name: [] for name in ("data", "name", "startTime", "endTime", "phase", "category")}
    return {"length": 0, **columns}


def add_marker(markers: dict[str, Any], name: int, time: float, data: dict[str, Any]) -> None:
    """Append a marker of one moment to a thread's."""
    row = {"data": data, "name": name, "startTime": time, "endTime": None, "phase": INSTANT, "category": OTHER}
    for column, value in row.items():
        markers[column].append(value)
    markers["length"] += 1


def _interval(profile: ProfileData) -> float:
    """Milliseconds from one sample to the next, where the profile says so; else 1."""
    unit = NANOSECONDS.get(profile.period_type.unit)
    return profile.period * unit / MILLISECOND if unit and profile.period > 0 else 1.0


def _first_time(profile: ProfileData) -> int:
    """The earliest moment that is known, in the recorder's nanoseconds."""
    timeline = profile.samples.timeline
    times = [min(timeline.time)] if timeline is not None and len(timeline) else []
    return min([*times, *(one.time for one in profile.lost if one.time)], default=0)


def _samples(
    profile: ProfileData,
    tables: FirefoxTables,
    threads: list[ProfileThread],
    of: list[int],
    interval: float,
    first: int,
) -> list[dict[str, Any]]:
    """The table of samples of each thread."""
    samples, kind = profile.samples, profile.default_type
    type, divisor = _weights(profile)
    timeline = samples.timeline
    stacks = [tables.stack(at) for at in range(len(samples.first) - 1)]
    columns: list[tuple[list[int | None], list[float], list[float]]] = [([], [], []) for _ in threads]
    if timeline is not None:
        weights = timeline.values[kind] if kind < len(timeline.values) else array("q", [1]) * len(timeline)
        rows = [(timeline.sample[at], (timeline.time[at] - first) / MILLISECOND, at) for at in timeline.in_order()]
    else:
        weights = samples.values[kind] if kind < len(samples.values) else array("q")
        rows = [(at, number * interval, at) for number, at in enumerate(at for at, one in enumerate(weights) if one)]
    tables.budget.charge(bounds.JSON_VALUE * 3 * len(rows))
    for sample, time, at in rows:
        stack, times, values = columns[of[sample]]
        stack.append(stacks[samples.of[sample]])
        times.append(time)
        values.append(weights[at] if divisor == 1 else weights[at] / divisor)
    return [
        {"length": len(times), "stack": stack, "time": times, "weight": values, "weightType": type}
        for stack, times, values in columns
    ]


def _weights(profile: ProfileData) -> tuple[str, float]:
    """What the weights are to the front end, and what values are divided by for them."""
    kind = profile.default_type
    unit = profile.sample_types[kind].unit if kind < len(profile.sample_types) else ""
    if unit in NANOSECONDS:
        return "tracing-ms", MILLISECOND / NANOSECONDS[unit]
    return ("bytes" if unit == "bytes" else "samples"), 1


class FirefoxTables:
    """What all threads share, as it grows: each row once."""

    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        self.frames_of = ProfileStacks(profile, "Firefox Profiler's tables")
        self.budget = self.frames_of.budget
        self.strings: dict[str, int] = {}
        self.sources: dict[str, int] = {}
        self.libs: list[dict[str, Any]] = []
        self.functions: dict[tuple[int, int, int, int], int] = {}  # name, resource, source, line of its start
        self.frames: dict[tuple[int, int, int, int, int], int] = {}  # address, depth, category, function, line
        self.columns: list[int] = []  # of frames; 0 is unknown
        self.stacks: dict[tuple[int, int], int] = {}  # what it was called from (-1: nothing), frame
        self._resources: list[dict[str, Any]] = []
        self._known: dict[tuple[str, str], int] = {}
        self._locations: dict[int, list[int]] = {}
        self._kinds: dict[tuple[object, ...], AddressKind] = {}

    def string(self, text: str) -> int:
        found = self.strings.get(text)
        if found is None:
            self.budget.charge(bounds.STRING + len(text))
            found = self.strings[text] = len(self.strings)
        return found

    def resource(self, location: int, binary: str) -> int:
        """The resource of a location's mapping: a library where it is a file."""
        mapping = self.profile.mapping_of(location)
        if mapping is None or not binary:
            return NO_INDEX
        key = mapping.path, mapping.build_id
        found = self._known.get(key)
        if found is None:
            self.budget.charge(bounds.MAPPING + 2 * len(mapping.path) + len(mapping.build_id))
            found = self._known[key] = len(self._resources)
            lib = None
            if self.kind(mapping, self.profile.address[location]) in (AddressKind.FILE, AddressKind.KERNEL):
                lib = len(self.libs)
                self.libs.append(
                    {
                        "arch": "",
                        "name": binary,
                        "path": mapping.path,
                        "debugName": binary,
                        "debugPath": mapping.path,
                        "breakpadId": debug_id(mapping.build_id),
                        "codeId": mapping.build_id or None,
                    }
                )
            kind = NO_RESOURCE_TYPE if lib is None else LIBRARY
            self._resources.append({"name": self.string(binary), "lib": lib, "host": None, "type": kind})
        return found

    def kind(self, mapping: Mapping | None, address: int) -> AddressKind:
        """Where the name of an address is looked for; asked once of each path: many mappings may have a long one."""
        high = address >> HALF_BIT
        key = (
            (None, "", 0, high)
            if mapping is None
            else (mapping.path, mapping.build_id, mapping.start >> HALF_BIT, high)
        )
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = kind_of(mapping, address)
        return found

    def location(self, location: int) -> list[int]:
        """The frames of a location, outermost first."""
        found = self._locations.get(location)
        if found is None:
            shown = self.frames_of.frames(location)
            chain = self.profile.frames[location][::-1]
            columns = [one.column for one in chain] or [0]
            mapping = self.profile.mapping_of(location)
            address = self.profile.address[location]
            category = CATEGORY[self.kind(mapping, address)]
            if mapping is None:
                address = address or NO_ADDRESS
            elif is_runtime(mapping, address):
                address += mapping.file_offset - mapping.start
            resource = self.resource(location, shown[0].binary)
            found = self._locations[location] = [
                self.frame(one, address, depth, category, resource, column)
                for depth, (one, column) in enumerate(zip(shown, columns, strict=True))
            ]
        return found

    def frame(self, one: DisplayFrame, address: int, depth: int, category: int, resource: int, column: int) -> int:
        source = NO_INDEX
        if one.file:
            source = self.sources.setdefault(one.file, len(self.sources))
        named = self.string(one.name), resource, source, one.start_line
        function = self.functions.setdefault(named, len(self.functions))
        key = address, depth, category, function, one.line
        found = self.frames.setdefault(key, len(self.frames))
        if found == len(self.columns):
            self.budget.charge(bounds.JSON_OBJECT)
            self.columns.append(column)
        return found

    def stack(self, stack: int) -> int | None:
        """The row of the stack table for a stack of the profile; None for an empty one."""
        above = NO_INDEX
        for location in reversed(self.profile.samples.locations_of(stack)):
            for frame in self.location(location):
                found = self.stacks.get((above, frame))
                if found is None:
                    self.budget.charge(STACK_BYTES)
                    found = self.stacks[above, frame] = len(self.stacks)
                above = found
        return above if above >= 0 else None

    def shared(self) -> dict[str, Any]:
        """The tables as the format has them."""
        frames, functions, resources = list(self.frames), list(self.functions), self._resources
        return {
            "stackTable": {
                "length": len(self.stacks),
                "frame": [frame for _, frame in self.stacks],
                "prefix": [above if above >= 0 else None for above, _ in self.stacks],
            },
            "frameTable": {
                "length": len(frames),
                "address": [one[0] for one in frames],
                "inlineDepth": [one[1] for one in frames],
                "category": [one[2] for one in frames],
                "subcategory": [0] * len(frames),
                "func": [one[3] for one in frames],
                "nativeSymbol": [None] * len(frames),
                "innerWindowID": [0] * len(frames),
                "line": [one[4] or None for one in frames],
                "column": [one or None for one in self.columns],
            },
            "funcTable": {
                "length": len(functions),
                "name": [one[0] for one in functions],
                "isJS": [False] * len(functions),
                "relevantForJS": [False] * len(functions),
                "resource": [one[1] for one in functions],
                "source": [None if one[2] == NO_INDEX else one[2] for one in functions],
                "lineNumber": [one[3] or None for one in functions],
                "columnNumber": [None] * len(functions),
            },
            "resourceTable": {
                "length": len(resources),
                **{column: [one[column] for one in resources] for column in ("lib", "name", "host", "type")},
            },
            "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
            "sources": {
                "length": len(self.sources),
                "id": [None] * len(self.sources),
                "filename": [self.string(file) for file in self.sources],
            },
            "stringArray": list(self.strings),
        }
