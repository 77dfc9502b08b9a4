"""Arbitrary bytes as maps, perf maps, kallsyms and snapshots."""

from __future__ import annotations

from tests.hostile.inputs.procmap import TEXTS
from whence.procmap import kallsyms, maps, perfmap
from whence.procmap.snapshot import SnapshotMappings

SNAPSHOT = b"""{"format": "whence-snapshot", "version": 1, "pid": 7, "command": "app", "start_time": 123, "taken": 1.5,
"files": [{"path": "/opt/app", "build_id": "ab12", "stamp": [],
"segments": [["0x1000", "0x401000", "0x2000", "0x1000"]]}],
"mappings": [{"start": "0x401000", "limit": "0x403000", "offset": "0x1000", "permissions": "r-xp", "kind": "file",
"path": "/opt/app", "file": 0}]}"""


def seeds() -> list[bytes]:
    with open("/proc/self/maps", "rb") as file:
        own = file.read()
    return [
        own,
        b"1000-2000 r-xp 00003000 fe:00 42     /opt/a b\\012c (deleted)\n7000-8000 rw-p 0 00:00 0 \n",
        b"7f12a4c01000 1c0 LazyCompile:~main app.js:1\n",
        b"ffffffff81000000 T _text\nffffffffc0401000 t init_module\t[loop]\n",
        SNAPSHOT,
        *(text[:2000] for text in TEXTS.values()),
    ]


def target(data: bytes) -> None:
    result = maps.parse(data, "/proc/7", permissions=0)
    for before, after in zip(result.mappings, result.mappings[1:], strict=False):
        assert before.start <= after.start
    for mapping in result.mappings:
        assert mapping.start < mapping.limit
        mapping.map_files, list(mapping.candidates())
    perfmap.parse(data).lookup(0x1000)
    kallsyms.KernelNames(data).lookup(1 << 63)
    if data[:1] == b"{":
        snapshot = SnapshotMappings.from_json(data)
        offset = snapshot.index(0x401000)
        file = None if offset is None else snapshot.file_of[offset]
        if offset is not None and file is not None and file.mapper is not None:
            file.mapper.vaddr(snapshot.mappings[offset], 0x401000)
