"""Mappings of the processes of a `perf script` text, from its mapping events, or made up.

Addresses of call graphs are read as offsets in files until one can't be an offset (profiles.formats.perf). If only
offsets are known, the files are given consecutive ranges above all real addresses.
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
MADE_UP = 1 << 56  # start of the ranges of files for which only offsets are known; each has 4 GiB


class RuntimeAddresses(Exception):
    """An address is not an offset in its file, so the text has runtime addresses."""


class PerfMemory(Record):
    """The mappings of one process: starts in order, the index of each mapping, and the mappings of each path.

    A forked child shares the lists of its parent until one of them maps something.
    """

    starts: list[int] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    paths: dict[str, dict[int, None]] = field(
        default_factory=dict
    )  # of each path, including mappings that were replaced
    shared: bool = False

    def has(self, index: int, start: int) -> bool:
        """Return True if no later mapping replaced a mapping."""
        row = bisect_right(self.starts, start) - 1
        return row >= 0 and self.indexes[row] == index


class Memories:
    """The memory of every process, and the profile's mappings."""

    def __init__(self, profile: ProfileData, budget: Budget, runtime: bool) -> None:
        self.profile = profile
        self.budget = budget
        self.runtime = runtime  # whether addresses of call graphs are runtime addresses
        self.memory: dict[int, PerfMemory] = {}
        self.threads: dict[int, int] = {}  # thread -> process, where known
        self.mappings: dict[Mapping, int] = {}
        self.loose: dict[str, int] = {}  # by path: mappings whose range is unknown
        self.offsets = False  # whether the text has -F +dsoff

    def record(self, text: str) -> None:
        """Read a mapping event or a fork event."""
        match = MMAP.search(text)
        if match is not None:
            path = match["path"].strip()
            if "x" not in match["mode"]:
                return
            start, size = int(match["start"], 16), int(match["size"], 16)
            if start + size >= 1 << 64:
                return
            build_id = BUILD_ID.search(match["about"] or "")
            offset = int(match["offset"], 16) if not path.startswith("[") or path.startswith("[kernel") else 0
            if path.startswith(ANONYMOUS):
                path = f"/tmp/perf-{match['pid']}.map"  # perf's name in frames
            self.map(int(match["pid"]), Mapping(start, start + size, offset, path, build_id[1] if build_id else ""))
        fork = FORK.search(text)
        if fork is not None:
            child, parent = int(fork["child"]), self.memory.get(int(fork["parent"]))
            self.threads[int(fork["tid"])] = child
            if parent is not None and child != int(fork["parent"]):
                parent.shared = True
                self.memory[child] = replaced(parent)

    def of(self, pid: int) -> PerfMemory:
        """Return the memory of a process or thread: perf script prints threads by default."""
        memory = self.memory.get(pid) or self.memory.get(self.threads.get(pid, pid))
        if memory is None and len(self.memory) - (-1 in self.memory) == 1:
            memory = next(memory for number, memory in self.memory.items() if number != -1)
        return memory or PerfMemory()

    def map(self, pid: int, mapping: Mapping) -> int:
        """Add a mapping to a process; it replaces the mappings whose start it covers."""
        index = self.index(mapping)
        memory = self.memory.setdefault(pid, PerfMemory())
        self.budget.charge(len(memory.starts) // bounds.STEP)  # for moving the entries after it
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
        index = self.mappings.get(mapping)
        if index is None:
            self.budget.charge(bounds.MAPPING)
            index = self.mappings[mapping] = len(self.profile.mappings)
            self.profile.mappings.append(mapping)
        return index

    def locate(self, pid: int, frame: PerfFrame, one_line: bool) -> tuple[int, int]:
        """Return the mapping and the runtime address of a frame: by mapping events, offset in the file, or path."""
        file = frame.file or ""
        offset = frame.address if frame.offset is None else frame.offset
        is_runtime = not file.startswith("/") or kind_of(Mapping(path=file), 0) is not AddressKind.FILE
        mapped = self.mapped(pid, frame.address, file)
        if mapped is not None and frame.offset is None and (is_runtime or one_line or self.runtime):
            return mapped, frame.address
        memory = self.of(pid)
        for index in () if file in UNKNOWN else memory.paths.get(file, ()):
            self.budget.charge(bounds.STEP)
            mapping = self.profile.mappings[index]
            is_inside = 0 <= offset - mapping.file_offset < mapping.end - mapping.start
            if is_inside and memory.has(index, mapping.start):
                return index, offset - mapping.file_offset + mapping.start
        if mapped is not None:
            if frame.offset is None:
                raise RuntimeAddresses
            return mapped, frame.address
        if file in UNKNOWN:
            return NO_MAPPING, frame.address
        if file not in self.loose:
            self.budget.charge(bounds.MAPPING)
            self.loose[file] = len(self.profile.mappings)
            self.profile.mappings.append(Mapping(path=file))
        self.offsets |= frame.offset is not None
        return self.loose[file], offset

    def mapped(self, pid: int, address: int, file: str) -> int | None:
        """Return the mapping of a process, or of the kernel, that has a runtime address."""
        for memory in (self.of(pid), self.memory.get(-1, PerfMemory())):
            row = bisect_right(memory.starts, address) - 1
            if row >= 0:
                mapping = self.profile.mappings[memory.indexes[row]]
                if address < mapping.end and (mapping.path == file or not file.startswith("/")):
                    return memory.indexes[row]
        return None

    def map_loose_files(self, one_line: bool) -> None:
        """Give files without a known range a made-up range, unless their addresses are runtime addresses."""
        profile = self.profile
        files = {
            index
            for path, index in self.loose.items()
            if path.startswith("/") and kind_of(profile.mappings[index], 0) is AddressKind.FILE
        }
        rows = zip(profile.mapping, profile.address, strict=True)
        has_high = any(index in files and address >> 40 for index, address in rows)
        if (has_high or self.runtime or one_line) and not self.offsets:
            return
        start = {index: MADE_UP + (row << 32) for row, index in enumerate(sorted(files))}
        for index, base in start.items():
            profile.mappings[index] = profile.mappings[index]._replace(start=base, limit=base + (1 << 32))
        for location, index in enumerate(profile.mapping):
            if index in start and not profile.address[location] >> 32:
                profile.address[location] += start[index]
