"""Writer of Firefox Profiler's processed format, for profiler.firefox.com and its command line.

The version is 60, of 2025, in which all threads share the tables of strings, stacks, frames, functions, resources and
sources. Newer front ends upgrade it.

    threads     each thread of each process in the samples' labels; a single thread without such labels
    samples     in order of time, if known; otherwise each sample once, a period apart
    weights     of the profile's default sample type: times in milliseconds, bytes, or counts
    frames      an inlined call has its own frame at the address of its caller (inlineDepth); addresses are relative to
                the image, as the front end asks a server for instructions by them; those of files that were not read
                count from the first byte of the file
    nativeSymbols
                the functions of addresses in files that were read
    categories  the kernel, generated code, the program's files, and other code
    markers     samples that the recorder lost

Reference: github.com/firefox-devtools/profiler, src/types/profile.ts and docs-developer/CHANGELOG-formats.md.
"""

from __future__ import annotations

from array import array
from typing import Any

from whence._version import __version__
from whence.objects.ids import DebugId
from whence.profiles.formats.json_text import encoded
from whence.samples import bounds
from whence.samples.addresses import is_runtime
from whence.samples.kinds import AddressKind, kind_of
from whence.samples.model import Mapping, ProfileData
from whence.samples.stacks import DisplayFrame, ProfileStacks
from whence.samples.threads import ProfileThread, shown, threads_of

VERSION = 60
GECKO_VERSION = 29  # of Firefox's own recorder: readers require it
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
ADDRESS_LIMIT = 1 << 63  # addresses in images are smaller
HALF_BIT = 63  # set in addresses of the kernel
STACK_BYTES = 250  # of a row of the stack table, with its entry in `stacks`


def write(profile: ProfileData, name: str = "") -> str:
    """Return the profile as the front end's JSON, with a name."""
    return encoded(document_of(profile, name or "profile"))


def document_of(profile: ProfileData, name: str) -> dict[str, Any]:
    tables = FirefoxTables(profile)
    interval = _interval(profile)
    threads, of = threads_of(profile.samples)
    first = _first_time(profile)
    parts = _samples(profile, tables, threads, of, interval, first)
    thread_numbers = {(thread.pid, thread.tid): number for number, thread in enumerate(threads)}
    markers = [_no_markers() for _ in threads]
    for lost in profile.lost:
        number = thread_numbers.get((lost.pid, lost.tid), 0)
        time = max(0.0, (lost.time - first) / MILLISECOND) if lost.time else 0.0
        add_marker(markers[number], tables.string("Lost samples"), time, {"type": LOST, "count": lost.samples})
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
            "categories": [
                {"name": category, "color": color, "subcategories": ["Other"]} for category, color in CATEGORIES
            ],
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
                "markers": thread_markers,
            }
            for thread, samples, thread_markers in zip(threads, parts, markers, strict=True)
        ],
    }


def _no_markers() -> dict[str, Any]:
    columns: dict[str, Any] = {name: [] for name in ("data", "name", "startTime", "endTime", "phase", "category")}
    return {"length": 0, **columns}


def add_marker(markers: dict[str, Any], name: int, time: float, data: dict[str, Any]) -> None:
    """Append a marker without a duration to the markers of a thread."""
    row = {"data": data, "name": name, "startTime": time, "endTime": None, "phase": INSTANT, "category": OTHER}
    for column, value in row.items():
        markers[column].append(value)
    markers["length"] += 1


def _interval(profile: ProfileData) -> float:
    """Return the milliseconds between samples; 1 if unknown."""
    unit = NANOSECONDS.get(profile.period_type.unit)
    return profile.period * unit / MILLISECOND if unit and profile.period > 0 else 1.0


def _first_time(profile: ProfileData) -> int:
    """Return the earliest time, in nanoseconds of the recorder's clock."""
    timeline = profile.samples.timeline
    times = [min(timeline.time)] if timeline is not None and len(timeline) else []
    return min([*times, *(lost.time for lost in profile.lost if lost.time)], default=0)


def _samples(
    profile: ProfileData,
    tables: FirefoxTables,
    threads: list[ProfileThread],
    of: list[int],
    interval: float,
    first: int,
) -> list[dict[str, Any]]:
    """Return the table of samples of each thread."""
    samples, kind = profile.samples, profile.default_type
    type, divisor = _weights(profile)
    timeline = samples.timeline
    stacks = [tables.stack(row) for row in range(len(samples.first) - 1)]
    columns: list[tuple[list[int | None], list[float], list[float]]] = [([], [], []) for _ in threads]
    if timeline is not None:
        weights = timeline.values[kind] if kind < len(timeline.values) else array("q", [1]) * len(timeline)
        rows = [
            (timeline.sample[event], (timeline.time[event] - first) / MILLISECOND, event)
            for event in timeline.in_order()
        ]
    else:
        weights = samples.values[kind] if kind < len(samples.values) else array("q")
        nonzero = (row for row, weight in enumerate(weights) if weight)
        rows = [(row, number * interval, row) for number, row in enumerate(nonzero)]
    tables.budget.charge(bounds.JSON_VALUE * 3 * len(rows))
    for sample, time, row in rows:
        stack, times, values = columns[of[sample]]
        stack.append(stacks[samples.of[sample]])
        times.append(time)
        values.append(weights[row] if divisor == 1 else weights[row] / divisor)
    return [
        {"length": len(times), "stack": stack, "time": times, "weight": values, "weightType": type}
        for stack, times, values in columns
    ]


def _weights(profile: ProfileData) -> tuple[str, float]:
    """Return the front end's type of weights, and the divisor of values."""
    kind = profile.default_type
    unit = profile.sample_types[kind].unit if kind < len(profile.sample_types) else ""
    if unit in NANOSECONDS:
        return "tracing-ms", MILLISECOND / NANOSECONDS[unit]
    return ("bytes" if unit == "bytes" else "samples"), 1


class FirefoxTables:
    """The tables shared by all threads, with each row once."""

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
        self.stacks: dict[tuple[int, int], int] = {}  # row of the caller (-1: none), frame
        self._resources: list[dict[str, Any]] = []
        self._resource_numbers: dict[tuple[str, str], int] = {}
        self._locations: dict[int, list[int]] = {}
        self._kinds: dict[tuple[object, ...], AddressKind] = {}
        self.symbols: dict[tuple[int, int, int], int] = {}  # lib, start, size
        self.symbol_names: list[int] = []
        self.frame_symbols: list[int] = []  # of frames
        self._in_files = {
            location: (address, start, size)
            for part in profile.in_files
            for location, address, start, size in zip(
                part.locations, part.address, part.function, part.size, strict=True
            )
            if address < ADDRESS_LIMIT
        }

    def string(self, text: str) -> int:
        index = self.strings.get(text)
        if index is None:
            self.budget.charge(bounds.STRING + len(text))
            index = self.strings[text] = len(self.strings)
        return index

    def resource(self, location: int, binary: str) -> int:
        """Return the resource of a location's mapping, which is a library if it is a file."""
        mapping = self.profile.mapping_of(location)
        if mapping is None or not binary:
            return NO_INDEX
        key = mapping.path, mapping.build_id
        index = self._resource_numbers.get(key)
        if index is None:
            self.budget.charge(bounds.MAPPING + 2 * len(mapping.path) + len(mapping.build_id))
            index = self._resource_numbers[key] = len(self._resources)
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
                        "breakpadId": DebugId.of_build_id(mapping.build_id).breakpad,
                        "codeId": mapping.build_id or None,
                    }
                )
            kind = NO_RESOURCE_TYPE if lib is None else LIBRARY
            self._resources.append({"name": self.string(binary), "lib": lib, "host": None, "type": kind})
        return index

    def kind(self, mapping: Mapping | None, address: int) -> AddressKind:
        """Return the kind of an address, cached by path, as many mappings may have one long path."""
        high = address >> HALF_BIT
        key = (
            (None, "", 0, high)
            if mapping is None
            else (mapping.path, mapping.build_id, mapping.start >> HALF_BIT, high)
        )
        if key not in self._kinds:
            self._kinds[key] = kind_of(mapping, address)
        return self._kinds[key]

    def location(self, location: int) -> list[int]:
        """Return the frames of a location, outermost first."""
        frames = self._locations.get(location)
        if frames is None:
            shown = self.frames_of.frames(location)
            chain = self.profile.frames[location][::-1]
            columns = [frame.column for frame in chain] or [0]
            mapping = self.profile.mapping_of(location)
            address = self.profile.address[location]
            category = CATEGORY[self.kind(mapping, address)]
            address_in_image, start, size = self._in_files.get(location, (NO_ADDRESS, 0, 0))
            if mapping is None:
                address = address or NO_ADDRESS
            elif address_in_image != NO_ADDRESS:
                address = address_in_image
            elif is_runtime(mapping, address):
                address += mapping.file_offset - mapping.start
            resource = self.resource(location, shown[0].binary)
            symbol = self.symbol(resource, start, size, shown[0].name) if size else NO_INDEX
            frames = self._locations[location] = [
                self.frame(frame, address, depth, category, resource, column, symbol)
                for depth, (frame, column) in enumerate(zip(shown, columns, strict=True))
            ]
        return frames

    def symbol(self, resource: int, start: int, size: int, name: str) -> int:
        """Return the native symbol of a function of a resource, NO_INDEX if the resource is not a library."""
        lib = self._resources[resource]["lib"] if resource != NO_INDEX else None
        if lib is None:
            return NO_INDEX
        index = self.symbols.setdefault((lib, start, size), len(self.symbols))
        if index == len(self.symbol_names):
            self.budget.charge(bounds.JSON_OBJECT)
            self.symbol_names.append(self.string(name))
        return index

    def frame(
        self, frame: DisplayFrame, address: int, depth: int, category: int, resource: int, column: int, symbol: int
    ) -> int:
        source = NO_INDEX
        if frame.file:
            source = self.sources.setdefault(frame.file, len(self.sources))
        function_key = self.string(frame.name), resource, source, frame.start_line
        function = self.functions.setdefault(function_key, len(self.functions))
        key = address, depth, category, function, frame.line
        index = self.frames.setdefault(key, len(self.frames))
        if index == len(self.columns):
            self.budget.charge(bounds.JSON_OBJECT)
            self.columns.append(column)
            self.frame_symbols.append(symbol)
        return index

    def stack(self, stack: int) -> int | None:
        """Return the row of the stack table for a stack of the profile; None for an empty stack."""
        caller = NO_INDEX
        for location in reversed(self.profile.samples.locations_of(stack)):
            for frame in self.location(location):
                row = self.stacks.get((caller, frame))
                if row is None:
                    self.budget.charge(STACK_BYTES)
                    row = self.stacks[caller, frame] = len(self.stacks)
                caller = row
        return caller if caller >= 0 else None

    def shared(self) -> dict[str, Any]:
        """Return the tables in the form of the format."""
        frames, functions, resources = list(self.frames), list(self.functions), self._resources
        return {
            "stackTable": {
                "length": len(self.stacks),
                "frame": [frame for _, frame in self.stacks],
                "prefix": [above if above >= 0 else None for above, _ in self.stacks],
            },
            "frameTable": {
                "length": len(frames),
                "address": [frame[0] for frame in frames],
                "inlineDepth": [frame[1] for frame in frames],
                "category": [frame[2] for frame in frames],
                "subcategory": [0] * len(frames),
                "func": [frame[3] for frame in frames],
                "nativeSymbol": [None if symbol == NO_INDEX else symbol for symbol in self.frame_symbols],
                "innerWindowID": [0] * len(frames),
                "line": [frame[4] or None for frame in frames],
                "column": [column or None for column in self.columns],
            },
            "funcTable": {
                "length": len(functions),
                "name": [function[0] for function in functions],
                "isJS": [False] * len(functions),
                "relevantForJS": [False] * len(functions),
                "resource": [function[1] for function in functions],
                "source": [None if function[2] == NO_INDEX else function[2] for function in functions],
                "lineNumber": [function[3] or None for function in functions],
                "columnNumber": [None] * len(functions),
            },
            "resourceTable": {
                "length": len(resources),
                **{column: [resource[column] for resource in resources] for column in ("lib", "name", "host", "type")},
            },
            "nativeSymbols": {
                "length": len(self.symbols),
                "address": [start for _, start, _ in self.symbols],
                "functionSize": [size for _, _, size in self.symbols],
                "libIndex": [lib for lib, _, _ in self.symbols],
                "name": self.symbol_names,
            },
            "sources": {
                "length": len(self.sources),
                "id": [None] * len(self.sources),
                "filename": [self.string(file) for file in self.sources],
            },
            "stringArray": list(self.strings),
        }
