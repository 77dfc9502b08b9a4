"""Minidumps whose lists claim much: entries that share names, contexts, stacks and annotations."""

from __future__ import annotations

import struct

from tests.forge.minidump import Dump, Module, Thread, context
from whence.dumps import minidump_layout as layout

KILOBYTE, MEGABYTE = 1 << 10, 1 << 20


def _repeated(dump: Dump, type_: int, count: int, size: int, changes: str, step: int) -> bytes:
    """A dump whose list of one entry has `count` copies; the first field grows by `step`."""
    data = bytearray(dump.build())
    directory = struct.unpack_from("<I", data, 12)[0]
    for index in range(len(dump.streams)):
        offset = directory + 12 * index
        if struct.unpack_from("<I", data, offset)[0] != type_:
            continue
        start = struct.unpack_from("<I", data, offset + 8)[0] + 4
        entry = bytes(data[start : start + size])
        first = struct.unpack_from(changes, entry)[0]
        width = struct.calcsize(changes)
        rows = b"".join(struct.pack(changes, first + step * row) + entry[width:] for row in range(count))
        struct.pack_into("<II", data, offset + 4, 4 + len(rows), len(data))
        data += struct.pack("<I", count) + rows
    return bytes(data)


def threads_of_one_stack(count: int = 8) -> bytes:
    """Threads with one stack of 64 KB, which is a chain of 4,096 frame records."""
    records = b"".join(struct.pack("<QQ", 0x70000 + 16 * (row + 1), 0x401000) for row in range(4096))
    registers = {"rip": 0x401000, "rsp": 0x70000, "rbp": 0x70000}
    dump = Dump([Module(0x400000, 0x10000, "/opt/app")], [Thread(1, context(registers), 0x70000, records)])
    return _repeated(dump, layout.THREADS, count, 48, "<I", 1)


def modules_of_one_name(count: int = 60_000) -> bytes:
    """Modules that overlap, with one name of 30,000 letters."""
    return _repeated(Dump([Module(0x1000, 0xFFFFFFFF, "m" * 30_000)]), layout.MODULES, count, 108, "<Q", 16)


def memory_of_one_range(count: int = 100_000) -> bytes:
    """Ranges of memory that share one megabyte of the file."""
    dump = Dump(threads=[Thread(1, context({"rip": 8, "rsp": 0x100000}))], memory=[(0x100000, bytes(MEGABYTE))])
    return _repeated(dump, layout.MEMORY, count, 16, "<Q", 8)


def annotations_of_one_text(count: int = 2_000) -> bytes:
    """Modules of Crashpad that share a list of annotations, all of which are one text of 60 KB."""
    base = len(Dump(cpu=None).build()) + 52
    text = base
    pairs = text + 4 + 60_000
    info = pairs + 4 + 8 * count
    modules = info + 28
    body = struct.pack("<I", 60_000) + b"t" * 60_000
    body += struct.pack("<I", count) + struct.pack("<II", text, text) * count
    body += struct.pack("<7I", 1, 0, 0, 4 + 8 * count, pairs, 0, 0)
    body += struct.pack("<I", count) + b"".join(struct.pack("<III", row, 28, info) for row in range(count))
    head = struct.pack("<I16s16sIIII", 1, bytes(16), bytes(16), 0, 0, 4 + 12 * count, modules)
    return Dump(cpu=None, texts={layout.CRASHPAD: head + body}).build()
