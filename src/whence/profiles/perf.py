"""The text of `perf script`, read.

    python3 4242/4243 [001] 81.5: 250000 cycles:u:            comm pid/tid [cpu] time: period event:
            7f31c2 memcpy+0x12 (/usr/lib/libc.so.6)           address, what perf calls it, where it was mapped from
            55d0e4 inner (inlined)                            inlined calls: the same address, before their caller
            55d0e4 main+0x14 (/usr/bin/app+0x10e4)            -F +dsoff: the offset in the file
      main.c:12                                               -F +srcline
    app 4242 81.4: PERF_RECORD_MMAP2 4242/4242: [0x55d000(0x1000) @ 0x1000 08:01 77 0]: r-xp /usr/bin/app

Since Linux 5.12 the addresses of user code are offsets in the file; before, they were runtime addresses, which can be
named when the text says where the file was mapped: by mapping events (perf script --show-mmap-events), by -F +dsoff, or
because the file is not moved when it is loaded. Where only offsets are known, files are placed beside one another
above every real address, so that the profile is one like any other. Callers' addresses are return addresses here; in
the profile they are the byte before, inside the call. Names that perf knew are kept until they are overwritten.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field, replace

from whence.errors import ProfileError
from whence.model import Frame
from whence.profiles.model import NO_MAPPING, Label, Mapping, Profile, SampleType
from whence.profiles.reasons import GENERATED, Kind, kind_of

HEADER = re.compile(
    r"(?P<comm>\S.*?)\s+(?P<pid>-?\d{1,10})(?:/(?P<tid>-?\d{1,10}))?\s+(?:\[\d+\]\s+)?(?:[\w.]{5,}\s+)?(?P<time>\d+\.\d+):"
    r"\s+(?:(?P<period>\d{1,18})\s+)?(?P<event>[\w/,=.-]+(?::[\w-]+)*):+\s*(?P<rest>.*)$"
)
FRAME = re.compile(
    r"\s*(?P<address>[0-9a-f]{1,16})\s+(?P<name>.*?)(?:\+0x[0-9a-f]+)?"
    r"\s+\((?P<file>.*?)(?:\+0x(?P<offset>[0-9a-f]{1,16}))?\)(?:\s+\(inlined\))?$"
)
MMAP = re.compile(
    r"PERF_RECORD_MMAP2? (?P<pid>-?\d+)/-?\d+: \[(?P<start>0x[0-9a-f]{1,16}|0)\((?P<size>0x[0-9a-f]{1,16}|0)\) @ "
    r"(?P<offset>0x[0-9a-f]{1,16}|0)(?: (?P<about>[^\]]*))?\]: (?P<mode>\S+) (?P<path>.*)$"
)
FORK = re.compile(r"PERF_RECORD_FORK\((?P<child>\d+):\d+\):\((?P<parent>\d+):\d+\)")
LINE = re.compile(r"\s+(?P<file>\S.*):(?P<line>\d+)$")
ANONYMOUS = ("//anon", "/anon_hugepage")
BUILD_ID = re.compile(r"<?([0-9a-f]{16,64})>?$")
LARGEST = (1 << 63) - 1
PLACED = 1 << 56  # where files go of which only offsets are known; each has 4 GiB


@dataclass(slots=True)
class Memory:
    """What is mapped in one process: starts in order, and the index of each mapping."""

    starts: list[int] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Sample:
    """One sample as its lines come."""

    pid: int
    labels: tuple[Label, ...]
    event: str
    period: int
    stack: list[int] = field(default_factory=list)
    inlined: list[Frame] = field(default_factory=list)


class Reader:
    """The profile as it grows, line by line."""

    def __init__(self) -> None:
        self.profile = Profile()
        self.memory: dict[int, Memory] = {}
        self.mappings: dict[Mapping, int] = {}
        self.locations: dict[tuple[object, ...], int] = {}
        self.events: dict[str, int] = {}
        self.samples: dict[tuple[object, ...], list[int]] = {}  # event, stack, labels -> count, period
        self.sample: Sample | None = None
        self.offsets = False  # whether -F +dsoff was seen
        self.labels: dict[tuple[str, ...], tuple[Label, ...]] = {}
        self.loose: dict[str, int] = {}  # mappings known by their path only

    def line(self, number: int, text: str) -> None:
        if not text.strip():
            self.finish()
        elif text.startswith("#"):
            return
        elif text[0].isspace() and self.sample is not None:
            self.frame(number, text)
        else:
            self.header(number, text)

    def header(self, number: int, text: str) -> None:
        self.finish()
        if "PERF_RECORD_" in text:
            self.record(text)
            return
        found = HEADER.match(text.strip())
        if found is None:
            raise ProfileError(f"perf line {number}", None, "a sample starts with command, pid, time and event", text)
        key = found["comm"], found["pid"], found["tid"] or ""
        labels = self.labels.get(key)
        if labels is None:
            labels = self.labels[key] = tuple(
                Label("comm", key[0]) if at == 0 else Label(("", "pid", "tid")[at], number=int(one))
                for at, one in enumerate(key)
                if one
            )
        period = int(found["period"] or 1)
        self.sample = Sample(int(found["pid"]), labels, found["event"].rstrip(":"), period)
        if found["rest"] and FRAME.match(found["rest"]):
            self.frame(number, found["rest"])

    def record(self, text: str) -> None:
        """A mapping, or a process that starts with its parent's."""
        found = MMAP.search(text)
        if found is not None:
            path = found["path"].strip()
            if "x" not in found["mode"]:
                return
            start, size = int(found["start"], 16), int(found["size"], 16)
            if start + size >= 1 << 64:
                return
            build_id = BUILD_ID.search(found["about"] or "")
            offset = int(found["offset"], 16) if not path.startswith("[") or path.startswith("[kernel") else 0
            if path.startswith(ANONYMOUS):
                path = f"/tmp/perf-{found['pid']}.map"  # as perf calls it in the frames
            self.map(int(found["pid"]), Mapping(start, start + size, offset, path, build_id[1] if build_id else ""))
        forked = FORK.search(text)
        if forked is not None and forked["parent"] != forked["child"]:
            parent = self.memory.get(int(forked["parent"]))
            if parent is not None:
                self.memory[int(forked["child"])] = replace(
                    parent, starts=list(parent.starts), indexes=list(parent.indexes)
                )

    def map(self, pid: int, mapping: Mapping) -> int:
        """A new mapping of a process takes the place of those it covers."""
        index = self.index(mapping)
        memory = self.memory.setdefault(pid, Memory())
        low = bisect_right(memory.starts, mapping.start - 1)
        high = bisect_right(memory.starts, mapping.limit - 1)
        memory.starts[low:high] = [mapping.start]
        memory.indexes[low:high] = [index]
        return index

    def index(self, mapping: Mapping) -> int:
        found = self.mappings.get(mapping)
        if found is None:
            found = self.mappings[mapping] = len(self.profile.mappings)
            self.profile.mappings.append(mapping)
        return found

    def frame(self, number: int, text: str) -> None:
        assert self.sample is not None
        found = FRAME.match(text)
        if found is None:
            line = LINE.match(text)
            if line is not None:
                self.source_line(line["file"], int(line["line"]))
                return
            if text.strip().startswith(("(", "=>", "[")) or not self.sample.stack:
                return  # event fields, branch stacks and the like
            raise ProfileError(f"perf line {number}", None, "a frame is an address, a name and a file", text)
        sample = self.sample
        address = int(found["address"], 16)
        name = "" if found["name"] in ("[unknown]", "") else found["name"]
        if text.rstrip().endswith("(inlined)"):
            sample.inlined.append(Frame(name, inlined=True))
            return
        mapping, address = self.place(sample.pid, address, found["file"], found["offset"])
        frames = (*sample.inlined, Frame(name)) if name else ()
        sample.inlined = []
        if sample.stack and address:
            address -= 1
        path = "" if mapping == NO_MAPPING else self.profile.mappings[mapping].path
        process = sample.pid if not path or GENERATED.match(path) else 0  # code of one process only
        key = mapping, address, frames, process
        location = self.locations.get(key)
        if location is None:
            location = self.locations[key] = self.profile.location(mapping, address, frames)
        sample.stack.append(location)

    def source_line(self, file: str, line: int) -> None:
        """The line of the frame before: of the inlined call when one was last, else of the location."""
        assert self.sample is not None
        sample = self.sample
        if sample.inlined:
            sample.inlined[-1] = sample.inlined[-1]._replace(file=file, line=line)
        elif sample.stack and self.profile.frames[sample.stack[-1]]:
            frames = self.profile.frames[sample.stack[-1]]
            if not frames[-1].line:
                self.profile.frames[sample.stack[-1]] = (*frames[:-1], frames[-1]._replace(file=file, line=line))

    def place(self, pid: int, address: int, file: str, offset: str | None) -> tuple[int, int]:
        """Mapping and runtime address: by the mapping events, by the offset in the file, or only by name."""
        for memory in filter(None, (self.memory.get(pid), self.memory.get(-1))):
            at = bisect_right(memory.starts, address) - 1
            if at >= 0:
                mapping = self.profile.mappings[memory.indexes[at]]
                if address < mapping.limit and (mapping.path == file or not file.startswith("/")):
                    return memory.indexes[at], address
        if file in ("[unknown]", ""):
            return NO_MAPPING, address
        into = address if offset is None else int(offset, 16)
        memory = self.memory.get(pid, Memory())
        for index in memory.indexes:
            mapping = self.profile.mappings[index]
            if mapping.path == file and 0 <= into - mapping.file_offset < mapping.limit - mapping.start:
                return index, into - mapping.file_offset + mapping.start
        if file not in self.loose:
            self.loose[file] = len(self.profile.mappings)
            self.profile.mappings.append(Mapping(path=file))
        if offset is not None:
            self.offsets = True
        return self.loose[file], into

    def finish(self) -> None:
        """The sample is whole: add it to the equal ones before it."""
        sample, self.sample = self.sample, None
        if sample is None or not sample.stack:
            return
        event = self.events.setdefault(sample.event, len(self.events))
        key = event, tuple(sample.stack), sample.labels
        counts = self.samples.setdefault(key, [0, 0])
        counts[0] += 1
        counts[1] = min(counts[1] + sample.period, LARGEST)

    def settle(self) -> None:
        """Decide what the addresses in files known by name only are: offsets, unless one is too high for that."""
        profile = self.profile
        files = {
            index
            for path, index in self.loose.items()
            if path.startswith("/") and kind_of(profile.mappings[index], 0) is Kind.FILE
        }
        high = any(one in files and at >> 40 for one, at in zip(profile.mapping, profile.address, strict=True))
        if high and not self.offsets:
            return
        start = {index: PLACED + (at << 32) for at, index in enumerate(sorted(files))}
        for index, base in start.items():
            profile.mappings[index] = replace(profile.mappings[index], start=base, limit=base + (1 << 32))
        for location, index in enumerate(profile.mapping):
            if index in start and not profile.address[location] >> 32:
                profile.address[location] += start[index]

    def reorder(self) -> None:
        """Files first, the kernel's and other memory last: readers of pprof take the first mapping for the program."""
        mappings = self.profile.mappings
        order = sorted(range(len(mappings)), key=lambda index: not mappings[index].path.startswith("/"))
        place = {index: at for at, index in enumerate(order)} | {NO_MAPPING: NO_MAPPING}
        self.profile.mappings = [mappings[index] for index in order]
        self.profile.mapping = array("q", map(place.__getitem__, self.profile.mapping))

    def whole(self) -> Profile:
        self.finish()
        self.settle()
        self.reorder()
        profile = self.profile
        profile.sample_types = [SampleType("samples", "count")]
        profile.sample_types += [SampleType(name.partition(":")[0], unit_of(name)) for name in self.events]
        profile.default_type = 1 if len(self.events) == 1 else 0
        for (event, stack, labels), (count, period) in self.samples.items():
            values = [count] + [0] * len(self.events)
            values[1 + event] = period  # type: ignore[operator]
            profile.samples.add(list(stack), values, labels)  # type: ignore[call-overload, arg-type]
        return profile


def unit_of(event: str) -> str:
    """What an event's period counts."""
    return "nanoseconds" if event.startswith(("cpu-clock", "task-clock")) else "count"


def read(text: str) -> Profile:
    """A profile from the text of `perf script`: a sample type for the samples, and one for each event's periods."""
    reader = Reader()
    for number, line in enumerate(text.splitlines(), 1):
        reader.line(number, line)
    return reader.whole()


def looks_like(text: str) -> bool:
    """Whether text is perf script's, and not folded stacks: its first line that says anything is a sample's header."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            return bool("PERF_RECORD_" in line or HEADER.match(line.strip()))
    return False
