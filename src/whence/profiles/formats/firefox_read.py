"""Firefox Profiler's processed format, read: samples of every thread, and the document, to which names are added.

Versions from 41 on, whose libraries are the profile's: tables are each thread's own, or shared by all (60 and later).
A frame has an address in a library, counted from its first byte, already inside the call; calls that were inlined are
frames of the same address with a depth. Frames that have an address and no name ("0x1234": samply writes such files)
get their names here: by the library's build-id (codeId), else by the part of it that its debug id keeps.

Written as Firefox's format again, the document keeps everything but the functions, frames and stacks of locations that
got names. What Firefox's recorder itself writes (the Gecko format) is another format; profiler.firefox.com converts it.
"""

from __future__ import annotations

from array import array
from typing import Any

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame, Frames
from whence._base.records import Record
from whence.profiles.formats import json_text
from whence.profiles.formats.breakpad import build_id
from whence.profiles.formats.firefox import LOST, MILLISECOND
from whence.profiles.formats.json_text import written
from whence.profiles.formats.speedscope import EXPORTER
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, Label, LostSamples, Mapping, ProfileData, SampleType, Timeline

OLDEST, NEWEST = 41, 80  # versions: the first with libraries of the profile; the newest that is known is 75
PREFIX_OFFSET, FRAME_FLAGS, FUNC_FLAGS, SHARED_TABLES = 66, 71, 75, 60
INLINED, HAS_ADDRESS, HAS_LINE, HAS_COLUMN = 1, 2, 16, 32  # of frameTable.flags
HAS_SOURCE, HAS_START = 8, 16  # of funcTable.flags
WEIGHTS = {"samples": SampleType("samples", "count"), "bytes": SampleType("bytes", "bytes")}
TIME = SampleType("time", "nanoseconds")
CPU = SampleType("cpu", "nanoseconds")
CPU_UNITS = {"ns": 1, "µs": 1_000, "us": 1_000}
TABLES = ("stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols")
LARGEST = (1 << 63) - 1


class FirefoxOrigin(Record):
    """The document a profile was read from, and which location each frame of each thread's tables is."""

    document: dict[str, Any]
    tables: list[FirefoxTables]

    def __repr__(self) -> str:
        return f"<FirefoxOrigin of {len(self.tables)} threads>"


def read(text: str, budget: Budget | None = None) -> ProfileData:
    """The profile in a document's text."""
    rule = "its tables are as their version has them"
    return json_text.made_of(
        text, "firefox", rule, lambda document, left: FirefoxReader(document, left).profile, budget
    )


def version_of(document: dict[str, Any]) -> int:
    """The version of a processed profile. ProfileError for one that is not read."""
    found = document["meta"].get("preprocessedProfileVersion")
    if not isinstance(found, int):
        rule = "it is a processed profile: open it in profiler.firefox.com and save it"
        raise ProfileError("firefox meta", None, rule, "Firefox's own recording (the Gecko format)")
    if not OLDEST <= found <= NEWEST:
        raise ProfileError("firefox meta", None, f"its version is from {OLDEST} to {NEWEST}", found)
    return found


class FirefoxTables:
    """The tables of one thread, or of all: frames as chains, stacks as parents."""

    def __init__(self, holder: dict[str, Any], document: dict[str, Any], version: int, budget: Budget) -> None:
        self.holder, self.version = holder, version
        shared = document.get("shared") or {}
        self.strings: list[Any] = shared.get("stringArray") or holder.get("stringArray") or []
        self.sources: dict[str, Any] = shared.get("sources") or {}
        self.stacks, self.frames, self.functions, self.resources, self.symbols = (holder[name] for name in TABLES)
        for name in TABLES[:3]:
            whole(name, holder[name])
        if self.sources:
            whole("sources", self.sources)
        budget.charge(bounds.LOCATION * self.frames["length"] + 2 * bounds.JSON_VALUE * self.stacks["length"])
        self.parent = self._parents()
        self.depth = [max(0, int(one or 0)) for one in self.column(self.frames, "inlineDepth", 0)]
        if version >= FRAME_FLAGS:
            self.depth = [flags & INLINED for flags in self.frames["flags"]]
        self.location = array("q", [-1]) * self.frames["length"]  # of each frame
        self.stack_location = array("q", [-1]) * self.stacks["length"]

    def column(self, table: dict[str, Any], name: str, default: Any) -> list[Any]:
        found = table.get(name)
        return found if found is not None else [default] * table["length"]

    def string(self, index: Any) -> str:
        return str(self.strings[index]) if isinstance(index, int) and 0 <= index < len(self.strings) else ""

    def _parents(self) -> list[int]:
        """The parent of each stack, or -1; it stands before it."""
        if "prefixOffset" in self.stacks:
            found = [at - one if one else -1 for at, one in enumerate(self.stacks["prefixOffset"])]
        else:
            found = [-1 if one is None else one for one in self.stacks["prefix"]]
        frames = self.frames["length"]
        for at, (above, frame) in enumerate(zip(found, self.stacks["frame"], strict=True)):
            if not -1 <= above < at or not 0 <= frame < frames:
                raise ProfileError(f"stackTable {at}", None, "its prefix stands before it, its frame is there", above)
        return found

    def lib(self, frame: int) -> int:
        """The library of a frame; -1 where it has none."""
        if "lib" in self.frames:
            if self.version >= FRAME_FLAGS and not self.frames["flags"][frame] & HAS_ADDRESS:
                return -1
            return int(self.frames["lib"][frame])
        resource = self.functions["resource"][self.frames["func"][frame]]
        found = self.resources["lib"][resource] if isinstance(resource, int) and resource >= 0 else None
        return found if isinstance(found, int) else -1

    def address(self, frame: int) -> int:
        if self.version >= FRAME_FLAGS and not self.frames["flags"][frame] & HAS_ADDRESS:
            return -1
        found = self.frames["address"][frame]
        return found if isinstance(found, int) and 0 <= found < 1 << 63 else -1

    def shown(self, frame: int) -> Frame | None:
        """What a frame says of its function; None where its name is its address."""
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


def whole(name: str, table: dict[str, Any]) -> None:
    """Raise ProfileError unless every column of a table has its length."""
    length = table["length"]
    for column, values in table.items():
        if isinstance(values, list) and len(values) != length:
            raise ProfileError(name, None, f"its column {column} has its length, {length}", len(values))


def number(value: Any) -> int:
    """A line or a column; 0 where there is none."""
    return int(value) if isinstance(value, int | float) and 0 < value < 1 << 32 else 0


def is_address(name: str) -> bool:
    """Whether a function's name is no name: an address, or nothing.

    >>> is_address("0x1a2b"), is_address("main"), is_address("0xdeadbeef_handler")
    (True, False, False)
    """
    try:
        return not name or (name.startswith("0x") and int(name, 16) >= 0 and "_" not in name)
    except ValueError:
        return False


class FirefoxReader:
    """The profile as it grows, thread by thread."""

    def __init__(self, document: dict[str, Any], budget: Budget) -> None:
        self.document, self.budget = document, budget
        self.version = version_of(document)
        self.profile = ProfileData(stored=bounds.stored(budget))
        self.tables: list[FirefoxTables] = []
        self._mappings: dict[int, int] = {}
        self._locations: dict[tuple[int, int], int] = {}
        self._rows: dict[tuple[object, ...], int] = {}
        self._timeline = Timeline()
        self._types: dict[SampleType, int] = {}
        threads = document["threads"]
        self._main_names = {str(one.get("pid")): one.get("name") for one in threads if one.get("isMainThread")}
        together = None
        if self.version >= SHARED_TABLES:
            together = FirefoxTables(document["shared"], document, self.version, budget)
            self._place(together)
        for thread in threads:
            tables = together or FirefoxTables(thread, document, self.version, budget)
            if together is None:
                self._place(tables)
            self._thread(thread, tables)
        profile = self.profile
        profile.sample_types = list(self._types)
        for column in profile.samples.values:
            column.extend([0] * (len(profile.samples.of) - len(column)))
        for column in self._timeline.values:
            column.extend([0] * (len(self._timeline) - len(column)))
        profile.samples.timeline = self._timeline
        self._about()
        profile.origin = FirefoxOrigin(document, self.tables)

    def _about(self) -> None:
        meta, profile = self.document["meta"], self.profile
        started = meta.get("startTime")
        profile.time_ns = max(0, nanoseconds(started)) if started else 0
        interval = nanoseconds(meta.get("interval"))
        if interval > 0:
            profile.period, profile.period_type = interval, CPU
        times = self._timeline.time
        profile.duration_ns = max(times) - min(times) if len(times) else 0

    def _mapping(self, lib: int) -> int:
        found = self._mappings.get(lib)
        if found is None:
            self.budget.charge(bounds.MAPPING)
            one = self.document["libs"][lib]
            path = str(one.get("path") or one.get("debugPath") or one.get("name") or "")
            identity = str(one.get("codeId") or "") or build_id(str(one.get("breakpadId") or ""))
            found = self._mappings[lib] = len(self.profile.mappings)
            self.profile.mappings.append(Mapping(path=path, build_id=identity.lower()))
        return found

    def _place(self, tables: FirefoxTables) -> None:
        """A location for each frame that is not inlined; what was inlined there belongs to it."""
        self.tables.append(tables)
        libs = len(self.document.get("libs") or ())
        chains: dict[int, list[Frame | None]] = {}  # of locations, outermost first; None for one without a name
        depths = array("I", bytes(4 * len(tables.parent)))  # of each stack's frame in its chain
        for at, (above, frame) in enumerate(zip(tables.parent, tables.stacks["frame"], strict=True)):
            shown = tables.shown(frame)
            if tables.depth[frame] and above >= 0 and tables.stack_location[above] >= 0:
                location = tables.stack_location[above]
                depths[at] = depths[above] + 1
                if depths[at] == len(chains[location]):  # else another stack had it already
                    chains[location].append(shown)
            else:
                lib, address = tables.lib(frame), tables.address(frame)
                if address >= 0 and 0 <= lib < libs:
                    key = lib, address
                else:
                    key = -1 - len(self.tables), frame
                found = self._locations.get(key)
                if found is None:
                    self.budget.charge(bounds.LOCATION)
                    mapping = self._mapping(lib) if key[0] >= 0 else NO_MAPPING
                    found = self._locations[key] = self.profile.location(mapping, max(0, address))
                location = found
                chains.setdefault(location, [shown])
            tables.stack_location[at] = tables.location[frame] = location
        for location, chain in chains.items():
            known = [frame for frame in chain if frame is not None]
            if known:
                self.profile.frames[location] = inlined_chain(known)

    def _type(self, kind: SampleType) -> int:
        found = self._types.get(kind)
        if found is None:
            found = self._types[kind] = len(self._types)
            self.profile.samples.values.append(array("q"))
            self._timeline.values.append(array("q"))
        return found

    def _thread(self, thread: dict[str, Any], tables: FirefoxTables) -> None:
        samples = thread["samples"]
        stacks, times = samples["stack"], times_of(samples)
        count = len(stacks)
        weights = samples.get("weight")
        kind = samples.get("weightType") or "samples"
        columns: list[tuple[int, list[Any], float]] = []
        values: list[Any] = weights if weights is not None else [1] * count
        if kind == "tracing-ms":
            columns.append((self._type(TIME), values, MILLISECOND))
        else:
            columns.append((self._type(WEIGHTS.get(kind, WEIGHTS["samples"])), values, 1))
        unit = ((self.document["meta"].get("sampleUnits") or {}).get("threadCPUDelta")) or ""
        if samples.get("threadCPUDelta") and unit in CPU_UNITS:
            columns.append((self._type(CPU), samples["threadCPUDelta"], CPU_UNITS[unit]))
        labels = self._labels(thread)
        first = len(self._timeline)
        self.budget.charge(bounds.ENTRY * count * (2 + len(columns)))
        rows: dict[int, int] = {}
        for at, (stack, time) in enumerate(zip(stacks, times, strict=True)):
            if stack is None:
                continue
            row = rows.get(stack)
            if row is None:
                row = rows[stack] = self._row(tables, stack, labels)
            self._timeline.sample.append(row)
            self._timeline.time.append(nanoseconds(time))
            for place, given, scale in columns:
                value = amount(given[at], scale)
                total, event = self.profile.samples.values[place], self._timeline.values[place]
                total.extend([0] * (row + 1 - len(total)))
                total[row] = max(-LARGEST, min(total[row] + value, LARGEST))
                event.extend([0] * (len(self._timeline) - 1 - len(event)))
                event.append(value)
        self._lost(thread, tables, labels, first)

    def _row(self, tables: FirefoxTables, stack: int, labels: tuple[Label, ...]) -> int:
        """The sample of a stack of the stack table."""
        if not 0 <= stack < len(tables.parent):
            raise ProfileError("samples", None, "stack is a row of the stack table", stack)
        locations = []
        at = stack
        while at >= 0:
            above = tables.parent[at]
            location = tables.stack_location[at]
            inlined = (
                tables.depth[tables.stacks["frame"][at]] and above >= 0 and tables.stack_location[above] == location
            )
            if not inlined:
                locations.append(location)
            at = above
        self.budget.charge(bounds.SAMPLE + bounds.ENTRY * len(locations))
        key = (*locations, labels)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = len(self.profile.samples.of)
            samples = self.profile.samples
            samples.of.append(len(samples.first) - 1)
            samples.stack.extend(locations)
            samples.first.append(len(samples.stack))
            samples.labels.append(labels)
        return row

    def _names(self, thread: dict[str, Any]) -> tuple[Label, Label]:
        """The names of a thread and of its process.

        In a file of whence's a thread without a name has its number for one, or the profile's, and a process without
        one has its main thread's.
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
        pid, tid = str(thread.get("pid", "")), str(thread.get("tid", ""))
        found = [
            *self._names(thread),
            *(Label(key, number=int(one)) if one.isdecimal() and len(one) < 11 else Label(key, one)
              for key, one in (("pid", pid), ("tid", tid))),
        ]  # fmt: skip
        return tuple(one for one in found if one.text or one.number)

    def _lost(self, thread: dict[str, Any], tables: FirefoxTables, labels: tuple[Label, ...], first: int) -> None:
        markers = thread.get("markers") or {}
        pid, tid = (next((one.number for one in labels if one.key == key), 0) for key in ("pid", "tid"))
        for data, time in zip(markers.get("data") or (), markers.get("startTime") or (), strict=False):
            if isinstance(data, dict) and data.get("type") == LOST and isinstance(data.get("count"), int):
                self.budget.charge(bounds.LABEL)
                self.profile.lost.append(LostSamples(data["count"], nanoseconds(time), pid, tid))


def inlined_chain(outermost_first: list[Frame]) -> Frames:
    """The frames of a location, innermost first; all but the outermost are inlined."""
    last = len(outermost_first) - 1
    return tuple(one._replace(inlined=at < last) for at, one in enumerate(reversed(outermost_first)))


def nanoseconds(milliseconds: Any) -> int:
    """Milliseconds as whole nanoseconds; 0 for what is no number."""
    if not isinstance(milliseconds, int | float) or not abs(milliseconds) < LARGEST / MILLISECOND:
        return 0
    return round(milliseconds * MILLISECOND)


def amount(value: Any, scale: float) -> int:
    """A weight as a whole number; 0 where it is null."""
    if not isinstance(value, int | float) or not abs(value * scale) < LARGEST:
        return 0
    return round(value * scale)


def times_of(samples: dict[str, Any]) -> list[Any]:
    """When each sample was taken, in milliseconds."""
    times: list[Any] | None = samples.get("time")
    if times is not None:
        return times
    out, now = [], 0.0
    for step in samples["timeDeltas"]:
        now += step
        out.append(now)
    return out


# writing: names are added to the document


def renamed(profile: ProfileData, origin: FirefoxOrigin) -> str:
    """The document again with the functions, frames and stacks of profile.changed in place of what they had."""
    if not profile.changed:
        return written(origin.document)
    budget = bounds.writing(profile.stored, "the stacks of named locations")
    document = dict(origin.document)
    document["meta"] = {**document["meta"], "symbolicated": True}
    shared = document.get("shared") or {}
    rebuilt: list[Rebuilt] = []
    for tables in origin.tables:
        rebuilt.append(Rebuilt(tables, profile, budget, rebuilt[0] if rebuilt and "stringArray" in shared else None))
    if rebuilt and tables.version >= SHARED_TABLES:
        shared = {**shared, **rebuilt[0].parts()}
        threads = [rebuilt[0].moved(thread) for thread in document["threads"]]
    else:
        pairs = zip(document["threads"], rebuilt, strict=True)
        threads = [{**place.moved(thread), **place.parts()} for thread, place in pairs]
    if rebuilt:
        new = {"stringArray": rebuilt[0].strings, "sources": rebuilt[0].sources}
        document["shared"] = shared | {name: new[name] for name in new if name in shared}
    if not document.get("shared"):
        document.pop("shared", None)
    document["threads"] = threads
    return written(document)


class Rebuilt:
    """Tables with new rows for the locations that got names, and where each old stack went.

    With `shared` the strings and sources are those of other tables of the document, and grow there.
    """

    def __init__(
        self, tables: FirefoxTables, profile: ProfileData, budget: Budget, shared: Rebuilt | None = None
    ) -> None:
        self.tables, self.profile, self.budget = tables, profile, budget
        self.frames, self.functions = copied(tables.frames), copied(tables.functions)
        self.strings: list[Any] = list(tables.strings) if shared is None else shared.strings
        self.sources: dict[str, Any] = copied(tables.sources) if shared is None else shared.sources
        self._texts: dict[str, int] = {} if shared is None else shared._texts
        self._files: dict[str, int] = {} if shared is None else shared._files
        for at, one in enumerate(self.strings if shared is None else ()):
            self._texts.setdefault(one, at)
        self._functions: dict[tuple[object, ...], int] = {}
        self._frames: dict[tuple[int, int], int] = {}
        self._rows: dict[tuple[int, int], int] = {}
        self.frame: list[int] = []
        self.parent: list[int] = []
        self.stack = array("q", [-1]) * tables.stacks["length"]
        for at, (above, frame) in enumerate(zip(tables.parent, tables.stacks["frame"], strict=True)):
            location = tables.stack_location[at]
            if location not in profile.changed:
                self.stack[at] = self._row(self.stack[above] if above >= 0 else -1, frame)
            elif above >= 0 and tables.depth[frame] and tables.stack_location[above] == location:
                self.stack[at] = self.stack[above]  # it is in the chain of its location already
            else:
                place = self.stack[above] if above >= 0 else -1
                for depth, one in enumerate(reversed(profile.frames[location])):
                    place = self._row(place, self._frame(frame, depth, one))
                self.stack[at] = place

    def _row(self, above: int, frame: int) -> int:
        found = self._rows.get((above, frame))
        if found is None:
            self.budget.charge(bounds.JSON_OBJECT)
            found = self._rows[above, frame] = len(self.frame)
            self.frame.append(frame)
            self.parent.append(above)
        return found

    def string(self, text: str) -> int:
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = len(self.strings)
            self.strings.append(text)
        return found

    def _frame(self, old: int, depth: int, one: Frame) -> int:
        """A frame like the old one, with another function, line and depth."""
        key = old, depth
        found = self._frames.get(key)
        if found is not None:
            return found
        self.budget.charge(bounds.JSON_OBJECT)
        new = {
            "func": self._function(self.tables.frames["func"][old], one), "inlineDepth": depth,
            "line": one.line or None, "column": one.column or None,
        }  # fmt: skip
        if "flags" in self.frames:
            flags = self.frames["flags"][old] & ~(INLINED | HAS_LINE | HAS_COLUMN)
            flags |= INLINED * (depth > 0) | HAS_LINE * (one.line > 0) | HAS_COLUMN * (one.column > 0)
            new |= {"flags": flags, "line": one.line, "column": one.column}
        found = self._frames[key] = append(self.frames, old, new)
        return found

    def _function(self, old: int, one: Frame) -> int:
        resource = self.tables.functions["resource"][old]
        key = resource, one.function, one.file, one.start_line
        found = self._functions.get(key)
        if found is None:
            self.budget.charge(bounds.JSON_OBJECT)
            new: dict[str, Any] = {"name": self.string(one.function), "lineNumber": one.start_line or None}
            new["columnNumber"] = None
            if "fileName" in self.functions:
                new["fileName"] = self.string(one.file) if one.file else None
            else:
                new["source"] = self._file(one.file) if one.file else None
            if "flags" in self.functions:
                flags = self.functions["flags"][old] & ~(HAS_SOURCE | HAS_START | HAS_COLUMN)
                flags |= HAS_SOURCE * bool(one.file) | HAS_START * (one.start_line > 0)
                new |= {"flags": flags, "lineNumber": one.start_line, "columnNumber": 0, "source": new["source"] or 0}
            found = self._functions[key] = append(self.functions, old, new)
        return found

    def _file(self, file: str) -> int:
        found = self._files.get(file)
        if found is None:
            ours = {"filename": self.string(file), "startLine": 1, "startColumn": 1}
            found = self._files[file] = append(self.sources, None, ours)
        return found

    def parts(self) -> dict[str, Any]:
        """The tables that are not as they were."""
        prefix: dict[str, Any]
        if "prefixOffset" in self.tables.stacks:
            prefix = {"prefixOffset": [at - one if one >= 0 else 0 for at, one in enumerate(self.parent)]}
        else:
            prefix = {"prefix": [one if one >= 0 else None for one in self.parent]}
        out: dict[str, Any] = {
            "stackTable": {"length": len(self.frame), "frame": self.frame, **prefix},
            "frameTable": self.frames,
            "funcTable": self.functions,
        }
        if "stringArray" in self.tables.holder:
            out["stringArray"] = self.strings
        return out

    def moved(self, thread: dict[str, Any]) -> dict[str, Any]:
        """A thread whose samples and markers refer to the new stacks."""
        out = dict(thread)
        for name in ("samples", "nativeAllocations", "jsAllocations"):
            if isinstance(thread.get(name), dict) and "stack" in thread[name]:
                out[name] = {**thread[name], "stack": [self._new(one) for one in thread[name]["stack"]]}
        markers = thread.get("markers")
        if markers:
            data = [
                {**one, "cause": {**one["cause"], "stack": self._new(one["cause"].get("stack"))}}
                if isinstance(one, dict) and isinstance(one.get("cause"), dict)
                else one
                for one in markers.get("data") or ()
            ]
            out["markers"] = {**markers, "data": data}
        return out

    def _new(self, stack: Any) -> Any:
        return self.stack[stack] if isinstance(stack, int) and 0 <= stack < len(self.stack) else None


def copied(table: dict[str, Any]) -> dict[str, Any]:
    """A table whose columns may grow."""
    return {name: list(column) if isinstance(column, list) else column for name, column in table.items()}


def append(table: dict[str, Any], like: int | None, new: dict[str, Any]) -> int:
    """Append a row to a table: like another one of it, or empty, but for some columns. Returns its number."""
    for name, column in table.items():
        if isinstance(column, list):
            column.append(new[name] if name in new else None if like is None else column[like])
    table["length"] += 1
    return int(table["length"]) - 1
