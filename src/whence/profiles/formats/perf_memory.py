"""Where files lay in the processes of a `perf script` text: from its mapping events, else made up.

Addresses of call graphs are taken for offsets in files until one can't be an offset (profiles.formats.perf). Where only
offsets are known, files are placed beside one another above every real address.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from whence._base.budget import Budget
from whence._base.records import Record, field, replaced
from whence.profiles.formats.perf_lines import FORK, MMAP, UNKNOWN, PerfFrame
from whence.samples import bounds
from whence.samples.kinds import AddressKind, kind_of
from whence.samples.model import NO_MAPPING, Mapping, ProfileData

ANONYMOUS = ("//anon", "/anon_hugepage")
BUILD_ID = re.compile(r"<?([0-9a-f]{16,64})>?$")
PLACED = 1 << 56  # where files go of which only offsets are known; each has 4 GiB


class RuntimeAddresses(Exception):
    """An address was met that is no offset in its file: the text has runtime addresses."""


class PerfMemory(Record):
    """What is mapped in one process: starts in order, the index of each mapping, and the mappings of each path.

    A child that was forked has its parent's lists until one of the two maps something.
    """

    starts: list[int] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    paths: dict[str, dict[int, None]] = field(default_factory=dict)  # the indexes of each path, covered ones too
    shared: bool = False

    def has(self, index: int, start: int) -> bool:
        """Whether a mapping is still there, and not covered by a later one."""
        row = bisect_right(self.starts, start) - 1
        return row >= 0 and self.indexes[row] == index


class Memories:
    """The memory of every process as the text has it, and the profile's mappings."""

    def __init__(self, profile: ProfileData, budget: Budget, runtime: bool) -> None:
        self.profile = profile
        self.budget = budget
        self.runtime = runtime  # whether addresses of call graphs are runtime ones
        self.memory: dict[int, PerfMemory] = {}
        self.threads: dict[int, int] = {}  # thread -> process, where known
        self.mappings: dict[Mapping, int] = {}
        self.loose: dict[str, int] = {}  # mappings known by their path only
        self.offsets = False  # whether -F +dsoff was seen

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
        if forked is not None:
            child, parent = int(forked["child"]), self.memory.get(int(forked["parent"]))
            self.threads[int(forked["tid"])] = child
            if parent is not None and child != int(forked["parent"]):
                parent.shared = True
                self.memory[child] = replaced(parent)

    def of(self, pid: int) -> PerfMemory:
        """The memory of a process, or of a thread: perf script prints the thread unless it is asked for both."""
        found = self.memory.get(pid) or self.memory.get(self.threads.get(pid, pid))
        if found is None and len(self.memory) - (-1 in self.memory) == 1:
            found = next(memory for one, memory in self.memory.items() if one != -1)
        return found or PerfMemory()

    def map(self, pid: int, mapping: Mapping) -> int:
        """A new mapping of a process takes the place of those it covers."""
        index = self.index(mapping)
        memory = self.memory.setdefault(pid, PerfMemory())
        self.budget.charge(len(memory.starts) // bounds.STEP)  # to make room among them
        if memory.shared:
            self.budget.charge(4 * bounds.ENTRY * len(memory.starts))
            paths = {path: dict(indexes) for path, indexes in memory.paths.items()}
            memory = self.memory[pid] = PerfMemory(list(memory.starts), list(memory.indexes), paths)
        low = bisect_right(memory.starts, mapping.start - 1)
        high = bisect_right(memory.starts, mapping.end - 1)
        memory.starts[low:high] = [mapping.start]
        memory.indexes[low:high] = [index]
        memory.paths.setdefault(mapping.path, {})[index] = None
        return index

    def index(self, mapping: Mapping) -> int:
        found = self.mappings.get(mapping)
        if found is None:
            self.budget.charge(bounds.MAPPING)
            found = self.mappings[mapping] = len(self.profile.mappings)
            self.profile.mappings.append(mapping)
        return found

    def place(self, pid: int, one: PerfFrame, alone: bool) -> tuple[int, int]:
        """Mapping and runtime address: by the mapping events, by the offset in the file, or only by name."""
        file = one.file or ""
        into = one.address if one.offset is None else one.offset
        moved = not file.startswith("/") or kind_of(Mapping(path=file), 0) is not AddressKind.FILE
        here = self.mapped(pid, one.address, file)
        if here is not None and one.offset is None and (moved or alone or self.runtime):
            return here, one.address
        memory = self.of(pid)
        for index in () if file in UNKNOWN else memory.paths.get(file, ()):
            self.budget.charge(bounds.STEP)
            mapping = self.profile.mappings[index]
            inside = 0 <= into - mapping.file_offset < mapping.end - mapping.start
            if inside and memory.has(index, mapping.start):
                return index, into - mapping.file_offset + mapping.start
        if here is not None:
            if one.offset is None:
                raise RuntimeAddresses
            return here, one.address
        if file in UNKNOWN:
            return NO_MAPPING, one.address
        if file not in self.loose:
            self.budget.charge(bounds.MAPPING)
            self.loose[file] = len(self.profile.mappings)
            self.profile.mappings.append(Mapping(path=file))
        self.offsets |= one.offset is not None
        return self.loose[file], into

    def mapped(self, pid: int, address: int, file: str) -> int | None:
        """The mapping of a process, or of the kernel, that has a runtime address."""
        for memory in (self.of(pid), self.memory.get(-1, PerfMemory())):
            row = bisect_right(memory.starts, address) - 1
            if row >= 0:
                mapping = self.profile.mappings[memory.indexes[row]]
                if address < mapping.end and (mapping.path == file or not file.startswith("/")):
                    return memory.indexes[row]
        return None

    def place_loose_files(self, alone: bool) -> None:
        """Decide what the addresses in files known by name only are: offsets, unless one is too high for that."""
        profile = self.profile
        files = {
            index
            for path, index in self.loose.items()
            if path.startswith("/") and kind_of(profile.mappings[index], 0) is AddressKind.FILE
        }
        high = any(one in files and row >> 40 for one, row in zip(profile.mapping, profile.address, strict=True))
        if (high or self.runtime or alone) and not self.offsets:
            return
        start = {index: PLACED + (row << 32) for row, index in enumerate(sorted(files))}
        for index, base in start.items():
            profile.mappings[index] = profile.mappings[index]._replace(start=base, limit=base + (1 << 32))
        for location, index in enumerate(profile.mapping):
            if index in start and not profile.address[location] >> 32:
                profile.address[location] += start[index]
