"""Reader of Firefox Profiler's processed format, and writer of the same document with names added.

Versions since 41 are read. Each thread has its own tables, or (since 60) all threads share them. A frame has an address
in a library, counted from its first byte and already inside the call; inlined calls are frames of the same address with
a depth. Frames with an address and no name ("0x1234", as samply writes them) can be named: by the library's build-id
(codeId), else by the part of it in the debug id; on Windows and macOS, by the GUID or UUID in the debug id.

When written as Firefox's format again, the document changes only in the functions, frames and stacks of locations in
profile.changed. The format of Firefox's own recorder (Gecko) is not read; profiler.firefox.com converts it.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import Any

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame, Frames
from whence._base.records import Record
from whence.objects.ids import GUID_DIGITS, DebugId
from whence.profiles.formats import json_text
from whence.profiles.formats.firefox import LOST, MILLISECOND
from whence.profiles.formats.json_text import encoded
from whence.profiles.formats.speedscope import EXPORTER
from whence.profiles.formats.timed_samples import INT64_MAX, TimedSamples
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, Label, LostSamples, Mapping, ProfileData, SampleType

OLDEST, NEWEST = 41, 80  # versions: 41 is the first whose profile has libraries; 75 is the newest known
PREFIX_OFFSET, FRAME_FLAGS, FUNC_FLAGS, SHARED_TABLES = 66, 71, 75, 60
INLINED, HAS_ADDRESS, HAS_LINE, HAS_COLUMN = 1, 2, 16, 32  # of frameTable.flags
HAS_SOURCE, HAS_START = 8, 16  # of funcTable.flags
WEIGHTS = {"samples": SampleType("samples", "count"), "bytes": SampleType("bytes", "bytes")}
TIME = SampleType("time", "nanoseconds")
CPU = SampleType("cpu", "nanoseconds")
CPU_UNITS = {"ns": 1, "µs": 1_000, "us": 1_000}
WINDOWS, MAC, DRIVE = "Windows", "Mac", ":\\"  # in the profile's system; after the letter of a path
TABLES = ("stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols")


class FirefoxOrigin(Record):
    """The document a profile was read from, and the tables of its threads with the location of each frame."""

    document: dict[str, Any]
    tables: list[ThreadTables]

    def __repr__(self) -> str:
        return f"<FirefoxOrigin of {len(self.tables)} threads>"


def read(text: str, budget: Budget | None = None) -> ProfileData:
    """Read the text of a document."""
    return json_text.parsed(text, "firefox", lambda document, left: FirefoxReader(document, left).profile, budget)


def version_of(document: dict[str, Any]) -> int:
    """Return the version of a processed profile. Raises ProfileError for other versions and formats."""
    version = document["meta"].get("preprocessedProfileVersion")
    if not isinstance(version, int):
        problem = "a recording in the Gecko format: open it in profiler.firefox.com and save it"
        raise ProfileError("firefox", None, problem)
    if not OLDEST <= version <= NEWEST:
        raise ProfileError("firefox", None, f"unknown version {version}: versions {OLDEST} to {NEWEST} are read")
    return version


class ThreadTables:
    """The tables of one thread, or of all threads."""

    def __init__(self, holder: dict[str, Any], document: dict[str, Any], version: int, budget: Budget) -> None:
        self.holder, self.version = holder, version
        shared = document.get("shared") or {}
        self.strings: list[Any] = shared.get("stringArray") or holder.get("stringArray") or []
        self.sources: dict[str, Any] = shared.get("sources") or {}
        self.stacks, self.frames, self.functions, self.resources, self.symbols = (holder[name] for name in TABLES)
        for name in TABLES[:3]:
            check_lengths(name, holder[name])
        if self.sources:
            check_lengths("sources", self.sources)
        budget.charge(bounds.LOCATION * self.frames["length"] + 2 * bounds.JSON_VALUE * self.stacks["length"])
        self.parent = self._parents()
        self.depth = [max(0, int(depth or 0)) for depth in self.column(self.frames, "inlineDepth", 0)]
        if version >= FRAME_FLAGS:
            self.depth = [flags & INLINED for flags in self.frames["flags"]]
        self.location = array("q", [-1]) * self.frames["length"]  # of each frame
        self.stack_location = array("q", [-1]) * self.stacks["length"]

    def column(self, table: dict[str, Any], name: str, default: Any) -> list[Any]:
        values = table.get(name)
        return values if values is not None else [default] * table["length"]

    def string(self, index: Any) -> str:
        return str(self.strings[index]) if isinstance(index, int) and 0 <= index < len(self.strings) else ""

    def _parents(self) -> list[int]:
        """Return the parent of each stack, which is an earlier stack, or -1."""
        if "prefixOffset" in self.stacks:
            parents = [row - offset if offset else -1 for row, offset in enumerate(self.stacks["prefixOffset"])]
        else:
            parents = [-1 if prefix is None else prefix for prefix in self.stacks["prefix"]]
        frames = self.frames["length"]
        for row, (parent, frame) in enumerate(zip(parents, self.stacks["frame"], strict=True)):
            if not -1 <= parent < row:
                raise ProfileError(f"stackTable {row}", None, f"prefix {parent} is not an earlier row")
            if not 0 <= frame < frames:
                raise ProfileError(
                    f"stackTable {row}", None, f"frame {frame} is out of range: there are {frames} frames"
                )
        return parents

    def is_inlined(self, row: int) -> bool:
        """Return True if a stack's frame is inlined into its parent's frame, and both are of one location."""
        parent = self.parent[row]
        return bool(
            self.depth[self.stacks["frame"][row]]
            and parent >= 0
            and self.stack_location[parent] == self.stack_location[row]
        )

    def lib(self, frame: int) -> int:
        """Return the library of a frame, or -1."""
        if "lib" in self.frames:
            return int(self.frames["lib"][frame]) if self._has_address(frame) else -1
        resource = self.functions["resource"][self.frames["func"][frame]]
        lib = self.resources["lib"][resource] if isinstance(resource, int) and resource >= 0 else None
        return lib if isinstance(lib, int) else -1

    def address(self, frame: int) -> int:
        """Return the address of a frame in its library, or -1."""
        address = self.frames["address"][frame] if self._has_address(frame) else -1
        return address if isinstance(address, int) and 0 <= address < 1 << 63 else -1

    def _has_address(self, frame: int) -> bool:
        return self.version < FRAME_FLAGS or bool(self.frames["flags"][frame] & HAS_ADDRESS)

    def named_frame(self, frame: int) -> Frame | None:
        """Return the function of a frame; None if its name is an address."""
        function = self.frames["func"][frame]
        name = self.string(self.functions["name"][function])
        if is_address(name):
            return None
        file = ""
        source = self.column(self.functions, "source", None)[function] if "source" in self.functions else None
        if isinstance(source, int) and 0 <= source < len(self.sources.get("filename", ())):
            file = self.string(self.sources["filename"][source])
        elif "fileName" in self.functions:
            file = self.string(self.functions["fileName"][function])
        start = number(self.column(self.functions, "lineNumber", None)[function])
        line = number(self.column(self.frames, "line", None)[frame])
        column = number(self.column(self.frames, "column", None)[frame])
        return Frame(name, file, line, False, start_line=start, column=column)


def check_lengths(name: str, table: dict[str, Any]) -> None:
    """Raise ProfileError unless all columns of a table have its length."""
    length = table["length"]
    for column, values in table.items():
        if isinstance(values, list) and len(values) != length:
            raise ProfileError(name, None, f"column {column} has {len(values)} rows, the table has {length}")


def number(value: Any) -> int:
    """Return a line or a column; 0 if it is unknown."""
    return int(value) if isinstance(value, int | float) and 0 < value < 1 << 32 else 0


def is_address(name: str) -> bool:
    """Return True if the name of a function is empty or an address.

    >>> is_address("0x1a2b"), is_address("main"), is_address("0xdeadbeef_handler")
    (True, False, False)
    """
    try:
        return not name or (name.startswith("0x") and int(name, 16) >= 0 and "_" not in name)
    except ValueError:
        return False


class FirefoxReader:
    """Reads a document, thread by thread."""

    def __init__(self, document: dict[str, Any], budget: Budget) -> None:
        self.document, self.budget = document, budget
        self.version = version_of(document)
        self.profile = ProfileData(stored=bounds.stored(budget))
        self.tables: list[ThreadTables] = []
        self._mappings: dict[int, int] = {}
        self._locations: dict[tuple[int, int], int] = {}
        self._samples: dict[tuple[object, ...], int] = {}
        self._out = TimedSamples(self.profile)
        threads = document["threads"]
        self._main_names = {
            str(thread.get("pid")): thread.get("name") for thread in threads if thread.get("isMainThread")
        }
        shared = None
        if self.version >= SHARED_TABLES:
            shared = ThreadTables(document["shared"], document, self.version, budget)
            self._add_locations(shared)
        for thread in threads:
            tables = shared or ThreadTables(thread, document, self.version, budget)
            if shared is None:
                self._add_locations(tables)
            self._read_thread(thread, tables)
        self._out.finish()
        self._read_meta()
        self.profile.origin = FirefoxOrigin(document, self.tables)

    def _read_meta(self) -> None:
        meta, profile = self.document["meta"], self.profile
        start = meta.get("startTime")
        profile.time_ns = max(0, nanoseconds(start)) if start else 0
        interval = nanoseconds(meta.get("interval"))
        if interval > 0:
            profile.period, profile.period_type = interval, CPU
        times = self._out.timeline.time
        profile.duration_ns = max(times) - min(times) if len(times) else 0

    def _mapping(self, index: int) -> int:
        """Return the mapping of a library."""
        mapping = self._mappings.get(index)
        if mapping is None:
            self.budget.charge(bounds.MAPPING)
            lib = self.document["libs"][index]
            path = str(lib.get("path") or lib.get("debugPath") or lib.get("name") or "")
            identity = identity_of(lib, self.document["meta"])
            mapping = self._mappings[index] = len(self.profile.mappings)
            self.profile.mappings.append(Mapping(path=path, build_id=identity.lower()))
        return mapping

    def _add_locations(self, tables: ThreadTables) -> None:
        """Add a location for each frame that is not inlined, with the frames inlined there."""
        self.tables.append(tables)
        libs = len(self.document.get("libs") or ())
        chains: dict[int, list[Frame | None]] = {}  # of locations, outermost first; None for a frame without a name
        depths = array("I", bytes(4 * len(tables.parent)))  # of each stack's frame in its chain
        for row, (parent, frame) in enumerate(zip(tables.parent, tables.stacks["frame"], strict=True)):
            named = tables.named_frame(frame)
            if tables.depth[frame] and parent >= 0 and tables.stack_location[parent] >= 0:
                location = tables.stack_location[parent]
                depths[row] = depths[parent] + 1
                if depths[row] == len(chains[location]):  # else another stack added it
                    chains[location].append(named)
            else:
                lib, address = tables.lib(frame), tables.address(frame)
                has_lib = address >= 0 and 0 <= lib < libs
                key = (lib, address) if has_lib else (-1 - len(self.tables), frame)
                if key not in self._locations:
                    self.budget.charge(bounds.LOCATION)
                    mapping = self._mapping(lib) if has_lib else NO_MAPPING
                    self._locations[key] = self.profile.location(mapping, max(0, address))
                location = self._locations[key]
                chains.setdefault(location, [named])
            tables.stack_location[row] = tables.location[frame] = location
        for location, chain in chains.items():
            frames = [frame for frame in chain if frame is not None]
            if frames:
                self.profile.frames[location] = inlined_chain(frames)

    def _read_thread(self, thread: dict[str, Any], tables: ThreadTables) -> None:
        samples = thread["samples"]
        stacks, times = samples["stack"], times_of(samples)
        count = len(stacks)
        weights = samples.get("weight")
        weight_type = samples.get("weightType") or "samples"
        columns: list[tuple[int, list[Any], float]] = []  # sample type, values, factor
        values: list[Any] = weights if weights is not None else [1] * count
        if weight_type == "tracing-ms":
            columns.append((self._out.type(TIME), values, MILLISECOND))
        else:
            columns.append((self._out.type(WEIGHTS.get(weight_type, WEIGHTS["samples"])), values, 1))
        unit = ((self.document["meta"].get("sampleUnits") or {}).get("threadCPUDelta")) or ""
        if samples.get("threadCPUDelta") and unit in CPU_UNITS:
            columns.append((self._out.type(CPU), samples["threadCPUDelta"], CPU_UNITS[unit]))
        labels = self._labels(thread)
        self.budget.charge(bounds.ENTRY * count * (2 + len(columns)))
        sample_of: dict[int, int] = {}
        for index, (stack, time) in enumerate(zip(stacks, times, strict=True)):
            if stack is None:
                continue
            sample = sample_of.get(stack)
            if sample is None:
                sample = sample_of[stack] = self._sample(tables, stack, labels)
            event = [(kind, amount(column[index], scale)) for kind, column, scale in columns]
            self._out.add_event(sample, nanoseconds(time), event)
        self._read_lost(thread, labels)

    def _sample(self, tables: ThreadTables, stack: int, labels: tuple[Label, ...]) -> int:
        """Return the sample of a row of the stack table."""
        if not 0 <= stack < len(tables.parent):
            raise ProfileError("samples", None, f"stack {stack} is out of range: there are {len(tables.parent)} stacks")
        locations = []
        row = stack
        while row >= 0:
            if not tables.is_inlined(row):
                locations.append(tables.stack_location[row])
            row = tables.parent[row]
        self.budget.charge(bounds.SAMPLE + bounds.ENTRY * len(locations))
        key = (*locations, labels)
        if key not in self._samples:
            self._samples[key] = self._out.add_sample(locations, labels)
        return self._samples[key]

    def _names(self, thread: dict[str, Any]) -> tuple[Label, Label]:
        """Return the names of a thread and of its process.

        In files that whence wrote, a thread without a name has its number as a name, or the name of the profile, and a
        process without a name has the name of its main thread.
        """
        name, process = str(thread.get("name") or ""), str(thread.get("processName") or "")
        if not str(self.document["meta"].get("importedFrom") or "").startswith(EXPORTER):
            return Label("thread.name", name), Label("process", process)
        product = self.document["meta"].get("product")
        pid, tid = thread.get("pid"), thread.get("tid")
        number = str(tid or pid or 0)
        main = self._main_names.get(str(pid), "")
        if process == main or (process == product and main in (number, str(pid), product)):
            process = ""
        if name == (product if number == "0" else number):
            name = ""
        return Label("comm", name), Label("process", process)

    def _labels(self, thread: dict[str, Any]) -> tuple[Label, ...]:
        labels = [*self._names(thread)]
        for key in ("pid", "tid"):
            id = str(thread.get(key, ""))
            is_number = id.isdecimal() and len(id) < 11
            labels.append(Label(key, number=int(id)) if is_number else Label(key, id))
        return tuple(label for label in labels if label.text or label.number)

    def _read_lost(self, thread: dict[str, Any], labels: tuple[Label, ...]) -> None:
        markers = thread.get("markers") or {}
        pid, tid = (next((label.number for label in labels if label.key == key), 0) for key in ("pid", "tid"))
        for data, time in zip(markers.get("data") or (), markers.get("startTime") or (), strict=False):
            if isinstance(data, dict) and data.get("type") == LOST and isinstance(data.get("count"), int):
                self.budget.charge(bounds.LABEL)
                self.profile.lost.append(LostSamples(data["count"], nanoseconds(time), pid, tid))


def inlined_chain(outermost_first: list[Frame]) -> Frames:
    """Return the frames of a location, innermost first; all except the outermost are inlined."""
    last = len(outermost_first) - 1
    return tuple(frame._replace(inlined=index < last) for index, frame in enumerate(reversed(outermost_first)))


def nanoseconds(milliseconds: Any) -> int:
    """Return milliseconds as integral nanoseconds; 0 if they are not a number."""
    return amount(milliseconds, MILLISECOND)


def amount(value: Any, scale: float) -> int:
    """Return a value times `scale` as an integer; 0 if it is not a number, or too large."""
    if not isinstance(value, int | float) or not abs(value * scale) < INT64_MAX:
        return 0
    return round(value * scale)


def times_of(samples: dict[str, Any]) -> list[Any]:
    """Return the time of each sample, in milliseconds."""
    times: list[Any] | None = samples.get("time")
    if times is not None:
        return times
    return list(accumulate(samples["timeDeltas"], initial=0.0))[1:]


# writing: names are added to the document


def renamed(profile: ProfileData, origin: FirefoxOrigin) -> str:
    """Return the document with new functions, frames and stacks for the locations in profile.changed."""
    if not profile.changed:
        return encoded(origin.document)
    budget = bounds.writing(profile.stored, "the stacks of named locations")
    document = dict(origin.document)
    document["meta"] = {**document["meta"], "symbolicated": True}
    shared = document.get("shared") or {}
    rebuilt: list[RebuiltTables] = []
    for tables in origin.tables:
        first = rebuilt[0] if rebuilt and "stringArray" in shared else None
        rebuilt.append(RebuiltTables(tables, profile, budget, first))
    if rebuilt and tables.version >= SHARED_TABLES:
        shared = {**shared, **rebuilt[0].parts()}
        threads = [rebuilt[0].remapped(thread) for thread in document["threads"]]
    else:
        pairs = zip(document["threads"], rebuilt, strict=True)
        threads = [{**tables.remapped(thread), **tables.parts()} for thread, tables in pairs]
    if rebuilt:
        new = {"stringArray": rebuilt[0].strings, "sources": rebuilt[0].sources}
        document["shared"] = shared | {name: new[name] for name in new if name in shared}
    if not document.get("shared"):
        document.pop("shared", None)
    document["threads"] = threads
    return encoded(document)


class RebuiltTables:
    """The tables of a thread with new rows for the locations in profile.changed, and the new row of each old stack.

    `shared` has the strings and sources if all threads of the document share them.
    """

    def __init__(
        self, tables: ThreadTables, profile: ProfileData, budget: Budget, shared: RebuiltTables | None = None
    ) -> None:
        self.tables, self.profile, self.budget = tables, profile, budget
        self.frames, self.functions = copied(tables.frames), copied(tables.functions)
        self.strings: list[Any] = list(tables.strings) if shared is None else shared.strings
        self.sources: dict[str, Any] = copied(tables.sources) if shared is None else shared.sources
        self._texts: dict[str, int] = {} if shared is None else shared._texts
        self._files: dict[str, int] = {} if shared is None else shared._files
        for index, text in enumerate(self.strings if shared is None else ()):
            self._texts.setdefault(text, index)
        self._functions: dict[tuple[object, ...], int] = {}
        self._frames: dict[tuple[int, int], int] = {}
        self._rows: dict[tuple[int, int], int] = {}
        self.frame: list[int] = []
        self.parent: list[int] = []
        self.stack = array("q", [-1]) * tables.stacks["length"]
        for row, (old_parent, frame) in enumerate(zip(tables.parent, tables.stacks["frame"], strict=True)):
            location = tables.stack_location[row]
            parent = self.stack[old_parent] if old_parent >= 0 else -1
            if location not in profile.changed:
                parent = self._row(parent, frame)
            elif not tables.is_inlined(row):  # else its frame is in the chain of its parent
                for depth, new in enumerate(reversed(profile.frames[location])):
                    parent = self._row(parent, self._frame(frame, depth, new))
            self.stack[row] = parent

    def _row(self, parent: int, frame: int) -> int:
        key = parent, frame
        if key not in self._rows:
            self.budget.charge(bounds.JSON_OBJECT)
            self._rows[key] = len(self.frame)
            self.frame.append(frame)
            self.parent.append(parent)
        return self._rows[key]

    def string(self, text: str) -> int:
        index = self._texts.setdefault(text, len(self.strings))
        if index == len(self.strings):
            self.strings.append(text)
        return index

    def _frame(self, old: int, depth: int, frame: Frame) -> int:
        """Return a frame like the frame `old`, with another function, line and depth."""
        key = old, depth
        if key in self._frames:
            return self._frames[key]
        self.budget.charge(bounds.JSON_OBJECT)
        new = {
            "func": self._function(self.tables.frames["func"][old], frame), "inlineDepth": depth,
            "line": frame.line or None, "column": frame.column or None,
        }  # fmt: skip
        if "flags" in self.frames:
            flags = self.frames["flags"][old] & ~(INLINED | HAS_LINE | HAS_COLUMN)
            flags |= INLINED * (depth > 0) | HAS_LINE * (frame.line > 0) | HAS_COLUMN * (frame.column > 0)
            new |= {"flags": flags, "line": frame.line, "column": frame.column}
        self._frames[key] = append(self.frames, old, new)
        return self._frames[key]

    def _function(self, old: int, frame: Frame) -> int:
        """Return a function like the function `old`, with another name, file and start."""
        resource = self.tables.functions["resource"][old]
        key = resource, frame.function, frame.file, frame.start_line
        if key in self._functions:
            return self._functions[key]
        self.budget.charge(bounds.JSON_OBJECT)
        new: dict[str, Any] = {"name": self.string(frame.function), "lineNumber": frame.start_line or None}
        new["columnNumber"] = None
        if "fileName" in self.functions:
            new["fileName"] = self.string(frame.file) if frame.file else None
        else:
            new["source"] = self._file(frame.file) if frame.file else None
        if "flags" in self.functions:
            flags = self.functions["flags"][old] & ~(HAS_SOURCE | HAS_START | HAS_COLUMN)
            flags |= HAS_SOURCE * bool(frame.file) | HAS_START * (frame.start_line > 0)
            new |= {"flags": flags, "lineNumber": frame.start_line, "columnNumber": 0, "source": new["source"] or 0}
        self._functions[key] = append(self.functions, old, new)
        return self._functions[key]

    def _file(self, file: str) -> int:
        if file not in self._files:
            source = {"filename": self.string(file), "startLine": 1, "startColumn": 1}
            self._files[file] = append(self.sources, None, source)
        return self._files[file]

    def parts(self) -> dict[str, Any]:
        """Return the tables that changed."""
        prefix: dict[str, Any]
        if "prefixOffset" in self.tables.stacks:
            offsets = [row - parent if parent >= 0 else 0 for row, parent in enumerate(self.parent)]
            prefix = {"prefixOffset": offsets}
        else:
            prefix = {"prefix": [parent if parent >= 0 else None for parent in self.parent]}
        out: dict[str, Any] = {
            "stackTable": {"length": len(self.frame), "frame": self.frame, **prefix},
            "frameTable": self.frames,
            "funcTable": self.functions,
        }
        if "stringArray" in self.tables.holder:
            out["stringArray"] = self.strings
        return out

    def remapped(self, thread: dict[str, Any]) -> dict[str, Any]:
        """Return a thread whose samples and markers refer to the new stacks."""
        out = dict(thread)
        for name in ("samples", "nativeAllocations", "jsAllocations"):
            if isinstance(thread.get(name), dict) and "stack" in thread[name]:
                out[name] = {**thread[name], "stack": [self._new(stack) for stack in thread[name]["stack"]]}
        markers = thread.get("markers")
        if markers:
            data = [
                {**marker, "cause": {**marker["cause"], "stack": self._new(marker["cause"].get("stack"))}}
                if isinstance(marker, dict) and isinstance(marker.get("cause"), dict)
                else marker
                for marker in markers.get("data") or ()
            ]
            out["markers"] = {**markers, "data": data}
        return out

    def _new(self, stack: Any) -> Any:
        return self.stack[stack] if isinstance(stack, int) and 0 <= stack < len(self.stack) else None


def copied(table: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a table whose columns can be appended to."""
    return {name: list(column) if isinstance(column, list) else column for name, column in table.items()}


def append(table: dict[str, Any], like: int | None, new: dict[str, Any]) -> int:
    """Append a row to a table, like the row `like` or empty, except for the columns in `new`. Return its index."""
    for name, column in table.items():
        if isinstance(column, list):
            column.append(new[name] if name in new else None if like is None else column[like])
    table["length"] += 1
    return int(table["length"]) - 1


def identity_of(lib: dict[str, Any], meta: dict[str, Any]) -> str:
    """Return the build-id of a library. The code id of a Windows program is a time and a size, which files lack."""
    code_id, debug_id = str(lib.get("codeId") or ""), DebugId.parse(str(lib.get("breakpadId") or ""))
    system = f"{meta.get('platform') or ''} {meta.get('oscpu') or ''}"
    if len(code_id) >= GUID_DIGITS or not debug_id:
        return code_id
    if WINDOWS in system or MAC in system or str(lib.get("path") or "")[1:3] == DRIVE:
        return debug_id.guid
    return code_id or debug_id.start_of_build_id
