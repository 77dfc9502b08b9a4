"""The mappings of a process as a JSON file, so that its addresses can be named later or on another machine.

    {"format": "whence-snapshot", "version": 1, "pid": 7, "command": "app", "start_time": 123, "taken": 1767225600.5,
     "files":    [{"path": "/opt/app", "build_id": "ab12", "stamp": ["0x802", "0x2a", "0x18806c41f6b4e000", "0x4000"],
                   "segments": [["0x1000", "0x401000", "0x2000", "0x1000"]]}],
     "mappings": [{"start": "0x401000", "limit": "0x403000", "offset": "0x1000", "permissions": "r-xp", "kind": "file",
                   "path": "/opt/app", "file": 0}]}

Numbers of up to 64 bits are text in hex, because JSON readers may round them. `segments` are the executable PT_LOADs
(file_offset, vaddr, file_size, align), so that an archive can replace a missing binary. `stamp` is the file's device,
inode, time of last change in nanoseconds and size: on the same machine they identify a file without a build-id. `file`
is an index into `files`, null without a file. A file with `"image": true` was mapped by its loader, as minidumps record
it: offsets of its mappings count from the base address of the loaded file.
"""

from __future__ import annotations

import json
import os
import time
from bisect import bisect_right
from contextlib import suppress
from typing import Any

from whence._base.errors import WRONG_KIND, ElfError, MapsError, empty_file, shown
from whence._base.files import stamp_of
from whence._base.records import Record, field
from whence.objects.elf.segments import Segment
from whence.objects.ids import WindowsModule
from whence.procmap.address_mapper import AddressMapper
from whence.procmap.kernels.constants import EXECUTE, READ, SHARED, WRITE
from whence.procmap.mapping import Kind, Mapping
from whence.procmap.process import command, identify
from whence.procmap.resolver import Resolver

FORMAT, VERSION = "whence-snapshot", 1
SEGMENT_FIELDS = ("file_offset", "vaddr", "file_size", "align")
SIZE_LIMIT = 256 << 20  # bytes; 65,530 mappings, Linux's limit, need some 20 MB


class SnapshotFile(Record, frozen=True):
    """A file that was mapped, and its segments (None without a mapper or stamp if it could not be read).

    `stamp` is that of the file at `local_path`, if it has no build-id. `below_sysroot` is its path below a sysroot, ""
    without one. `unproved`: the file fits the mappings, but it is not proved that it was mapped. `is_image`: offsets of
    its mappings count from the base address of the loaded file, not in the file. `module`: what symbol servers have a
    program of Windows by.
    """

    path: str
    build_id: str
    mapper: AddressMapper | None
    stamp: tuple[int, ...] = ()
    below_sysroot: str = ""
    unproved: bool = False
    is_image: bool = False
    module: WindowsModule | None = None

    @property
    def is_known(self) -> bool:
        """True if a build-id or a stamp identifies the file."""
        return bool(self.build_id or self.stamp)

    @property
    def local_path(self) -> str:
        """The path of the file on this machine."""
        return self.below_sysroot or self.path

    def is_unchanged(self) -> bool:
        """Return True if the file that was mapped is still at its path. Raises OSError."""
        return bool(self.stamp) and stamp_of(self.local_path) == self.stamp


class SnapshotMappings(Record, frozen=True):
    """The executable mappings of a process at one moment. `file_of[i]` is the file of mapping i, or None."""

    pid: int
    command: str
    start_time: int
    taken: float  # seconds since 1970
    mappings: list[Mapping] = field(default_factory=list)
    file_of: list[SnapshotFile | None] = field(default_factory=list)

    @classmethod
    def take(cls, pid: int, resolver: Resolver | None = None) -> SnapshotMappings:
        """Take a snapshot of a live process. Raises ProcessLookupError, PermissionError."""
        resolver = resolver or Resolver()
        process = resolver.directory(pid)
        mappings = list(resolver.require(pid))
        files: dict[tuple[str, int, int, str], SnapshotFile] = {}
        file_of: list[SnapshotFile | None] = []
        for mapping in mappings:
            if not mapping.kind.has_file:
                file_of.append(None)
                continue
            key = (mapping.path, mapping.device, mapping.inode, mapping.build_id)
            if key not in files:
                files[key] = _file_of_mapping(mapping)
            file_of.append(files[key])
        return cls(pid, command(process), identify(process).start_time, time.time(), mappings, file_of)

    def __repr__(self) -> str:
        return f"<SnapshotMappings of {self.pid} {self.command}: {len(self.mappings)} executable mappings>"

    def index(self, runtime: int) -> int | None:
        """Return the index of the mapping at a runtime address."""
        row = bisect_right(self.mappings, runtime, key=lambda mapping: mapping.start)
        return row - 1 if row and runtime < self.mappings[row - 1].end else None

    def to_json(self) -> str:
        """Return the snapshot as JSON, see the module's docstring."""
        files: dict[int, int] = {}
        listed: list[dict[str, object]] = []
        for file in self.file_of:
            if file is not None and id(file) not in files:
                files[id(file)] = len(listed)
                segments = None
                if file.mapper is not None:
                    segments = [
                        [hex(getattr(segment, name)) for name in SEGMENT_FIELDS] for segment in file.mapper.segments
                    ]
                stamp = [hex(n) for n in file.stamp]
                about: dict[str, object] = {
                    "path": file.path,
                    "build_id": file.build_id,
                    "stamp": stamp,
                    "segments": segments,
                }
                marks = {"unproved": file.unproved, "image": file.is_image}
                listed.append({**about, **{name: True for name, is_set in marks.items() if is_set}})
        mappings = [
            {
                "start": hex(m.start),
                "limit": hex(m.end),
                "offset": hex(m.offset),
                "permissions": m.shown_permissions,
                "kind": m.kind.value,
                "path": m.path,
                "file": None if file is None else files[id(file)],
            }
            for m, file in zip(self.mappings, self.file_of, strict=True)
        ]
        head = {"format": FORMAT, "version": VERSION, "pid": self.pid, "command": self.command}
        times = {"start_time": self.start_time, "taken": self.taken}
        return json.dumps({**head, **times, "files": listed, "mappings": mappings}, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> SnapshotMappings:
        """Read what `to_json` returned. Raises MapsError for other text."""
        if len(text) > SIZE_LIMIT:
            raise MapsError("snapshot", None, f"{len(text) >> 20} MiB is more than {SIZE_LIMIT >> 20} MiB")
        try:
            top = json.loads(text)
        except (ValueError, RecursionError) as error:
            not_json = MapsError("", None, f"not a snapshot: not JSON: {error}")
            raise (not_json if text else empty_file(MapsError)) from None
        if not isinstance(top, dict) or top.get("format") != FORMAT:
            raise MapsError("", None, f'not a snapshot: its "format" is not "{FORMAT}"', code=WRONG_KIND)
        if top.get("version") != VERSION:
            version = shown(top.get("version"))
            raise MapsError("snapshot", None, f"version {version} is not supported, only {VERSION}")
        try:
            files = [_file(entry) for entry in top["files"]]
            mappings = [_mapping(entry, files) for entry in top["mappings"]]
            mappings.sort(key=lambda pair: pair[0].start)
            return cls(
                int(top["pid"]),
                str(top["command"]),
                int(top["start_time"]),
                float(top["taken"]),
                [mapping for mapping, _ in mappings],
                [file for _, file in mappings],
            )
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            problem = f"a file or a mapping has invalid fields: {type(error).__name__} {error}"
            raise MapsError("snapshot", None, problem) from None


def _file_of_mapping(mapping: Mapping) -> SnapshotFile:
    """Return the file of a mapping as it is now, without what can't be read."""
    mapper: AddressMapper | None = None
    stamp: tuple[int, ...] = ()
    path = mapping.openable_path()
    with suppress(OSError, ElfError):
        stamp = stamp_of(path)
        mapper = AddressMapper(path)
    return SnapshotFile(mapping.path, mapping.build_id, mapper, stamp)


def _number(text: object) -> int:
    """Parse a 64-bit number in hex. Raises ValueError, TypeError."""
    value = int(text, 16) if isinstance(text, str) else int(str(text))
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} does not fit in 64 bits")
    return value


def _file(entry: dict[str, Any]) -> SnapshotFile:
    segments = entry["segments"]
    mapper = None
    if segments is not None:
        mapper = AddressMapper.from_segments(Segment.of_code(*map(_number, segment)) for segment in segments)
    stamp = tuple(_number(n) for n in entry["stamp"])
    path = str(entry["path"])
    if b"\0" in os.fsencode(path):
        raise ValueError(f"invalid path {path!r}")
    return SnapshotFile(
        path,
        str(entry["build_id"]),
        mapper,
        stamp,
        unproved=bool(entry.get("unproved")),
        is_image=bool(entry.get("image")),
    )


def _mapping(entry: dict[str, Any], files: list[SnapshotFile]) -> tuple[Mapping, SnapshotFile | None]:
    row = entry["file"]
    if row is not None and not 0 <= row < len(files):
        raise IndexError(f"file {row} of {len(files)}")
    file = None if row is None else files[row]
    bits = sum(
        bit
        for letter, bit in zip("rwxs", (READ, WRITE, EXECUTE, SHARED), strict=True)
        if letter in entry["permissions"]
    )
    start, end, offset = (_number(entry[name]) for name in ("start", "limit", "offset"))
    kind = Kind(entry["kind"])
    build_id = "" if file is None else file.build_id
    deleted = kind is Kind.DELETED
    return Mapping(str(entry["path"]), start, end, offset, build_id, kind, bits, deleted=deleted), file
