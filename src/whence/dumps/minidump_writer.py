"""Write minidumps of Linux processes, little-endian: what a core has, for tools that read minidumps.

    header, directory | contexts, names, CodeView records | streams | memory

Streams: system, misc info, threads and their names, modules, exception, memory; Linux's maps, command line, status and
auxiliary vector. Memory of 2 GiB or more is a 64-bit list. All offsets but those of memory have 32 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from whence._base.errors import Unsupported
from whence._base.records import Record, field
from whence.dumps import minidump_layout as layout
from whence.dumps.contexts import FORMS, write_context
from whence.objects.machines import machine_name

if TYPE_CHECKING:
    from whence.dumps.process import MemoryRange, ProcessDump, ThreadState

NARROW_LIMIT = 1 << 31  # bytes of memory in a list with 32-bit offsets
COPIED_AT_ONCE = 1 << 24
NUMBERS = {  # of processors
    processor.machine: number for number, processor in reversed(layout.PROCESSORS.items()) if processor.machine in FORMS
}


class DumpedModule(NamedTuple):
    """A mapped file: [start, end), its path and its build-id."""

    start: int
    end: int
    path: str
    build_id: str


class DumpFacts(Record, frozen=True):
    """What a minidump says besides threads and memory. `texts` are Linux's streams by type."""

    written: int  # in seconds since 1970
    modules: Sequence[DumpedModule]
    texts: dict[int, bytes] = field(default_factory=dict)


def write_minidump(file: BinaryIO, dump: ProcessDump, memory: Sequence[MemoryRange], facts: DumpFacts) -> int:
    """Write a minidump from its start to its end, and return its size in bytes.

    Args:
        file: written in order, so it may be a pipe.
        dump: threads, machine and pid.
        memory: the memory that is stored, in order of address.
        facts: modules and texts.

    Raises Unsupported for a machine whose registers minidumps do not have; OSError.
    """
    if dump.machine not in FORMS or dump.order != "little":
        name = machine_name(dump.machine)
        raise Unsupported(f"minidumps have no registers of {name}: use --shrink for a small core")
    writer = _Writer()
    writer.add(layout.SYSTEM, _system(dump))
    writer.add(layout.MISC, struct.pack("<" + layout.MISC_INFO, 24, layout.MISC_PID, dump.snapshot.pid, 0, 0, 0))
    writer.add_list(layout.MODULES, [_module(writer, module) for module in facts.modules])
    contexts = [writer.put(write_context(thread.registers, dump.machine, thread.wide)) for thread in dump.threads]
    named = [(thread.tid, writer.put(_text(thread.name))) for thread in dump.threads if thread.name]
    if named:
        writer.add_list(layout.THREAD_NAMES, [struct.pack("<" + layout.THREAD_NAME, *row) for row in named])
    size = FORMS[dump.machine].full_size
    crashed = next((index for index, thread in enumerate(dump.threads) if thread.signal is not None), None)
    if crashed is not None:
        writer.add(layout.EXCEPTION, _exception(dump.threads[crashed], size, contexts[crashed]))
    for type_, text in facts.texts.items():
        writer.add(type_, text)
    is_wide = sum(len(data) for _, data in memory) >= NARROW_LIMIT
    row_size = 16
    threads_size = 4 + len(dump.threads) * struct.calcsize("<" + layout.THREAD)
    memory_start = writer.end_with(threads_size, (row_size if is_wide else 4) + row_size * len(memory))
    offsets, offset = [], memory_start
    for _, data in memory:
        offsets.append(offset)
        offset += len(data)
    rows = [
        _thread(thread, size, context, [] if is_wide else list(zip(memory, offsets, strict=True)))
        for thread, context in zip(dump.threads, contexts, strict=True)
    ]
    writer.add_list(layout.THREADS, rows)
    if is_wide:
        head = struct.pack("<" + layout.MEMORY_64_HEAD, len(memory), memory_start)
        ranges = (struct.pack("<" + layout.MEMORY_64_RANGE, start, len(data)) for start, data in memory)
        writer.add(layout.MEMORY_64, head + b"".join(ranges))
    else:
        pairs = zip(memory, offsets, strict=True)
        narrow = [
            struct.pack("<" + layout.MEMORY_RANGE, piece.start, len(piece.data), position) for piece, position in pairs
        ]
        writer.add_list(layout.MEMORY, narrow)
    written = file.write(writer.finished(facts.written))
    assert written == memory_start
    for _, data in memory:
        for begin in range(0, len(data), COPIED_AT_ONCE):
            written += file.write(data[begin : begin + COPIED_AT_ONCE])
    return written


class _Writer:
    """The file up to the memory: parts in order, and the directory of streams."""

    STREAMS = 16  # entries of the directory

    def __init__(self) -> None:
        self._data = bytearray(struct.calcsize("<" + layout.HEADER) + self.STREAMS * struct.calcsize("<III"))
        self._directory: list[tuple[int, int, int]] = []

    def put(self, data: bytes) -> int:
        """Append bytes at a multiple of 8, and return their offset."""
        self._data += bytes(-len(self._data) % 8)
        self._data += data
        return len(self._data) - len(data)

    def add(self, type_: int, data: bytes) -> None:
        """Append a stream."""
        self._directory.append((type_, len(data), self.put(data)))

    def add_list(self, type_: int, rows: Sequence[bytes]) -> None:
        """Append a stream of entries with their count."""
        self.add(type_, struct.pack("<I", len(rows)) + b"".join(rows))

    def end_with(self, *sizes: int) -> int:
        """Return the offset after streams of these sizes, which are added last."""
        end = len(self._data)
        for size in sizes:
            end += -end % 8 + size
        return end

    def finished(self, written: int) -> bytes:
        """Return the bytes with header and directory."""
        start = struct.calcsize("<" + layout.HEADER)
        count = len(self._directory)
        head = layout.SIGNATURE, layout.VERSION, count, start, 0, written & 0xFFFFFFFF, 0
        struct.pack_into("<" + layout.HEADER, self._data, 0, *head)
        for index, row in enumerate(self._directory):
            struct.pack_into("<" + layout.DIRECTORY, self._data, start + 12 * index, *row)
        return bytes(self._data)


def _system(dump: ProcessDump) -> bytes:
    fields = NUMBERS[dump.machine], 0, 0, 0, 0, 0, 0, 0, layout.LINUX, 0, 0, 0
    return struct.pack("<" + layout.SYSTEM_INFO, *fields) + bytes(24)


def _text(text: str) -> bytes:
    raw = text.encode("utf-16-le", "replace")
    return struct.pack("<I", len(raw)) + raw + bytes(2)


def _module(writer: _Writer, module: DumpedModule) -> bytes:
    name, record = writer.put(_text(module.path)), b""
    if module.build_id:
        record = struct.pack("<I", layout.CODEVIEW_ELF) + bytes.fromhex(module.build_id)
    offset = writer.put(record) if record else 0
    size = min(module.end - module.start, 0xFFFFFFFF)
    return struct.pack("<" + layout.MODULE, module.start, size, 0, 0, name, len(record), offset, 0, 0, 0, 0)


def _exception(thread: ThreadState, size: int, context: int) -> bytes:
    assert thread.signal is not None
    address = thread.signal.address if thread.signal.address is not None else thread.pc or 0
    record = thread.signal.number, thread.signal_code & 0xFFFFFFFF, 0, address, 0, 0, *[0] * 15
    head = struct.pack("<" + layout.EXCEPTION_HEAD, thread.tid, 0)
    return head + struct.pack("<" + layout.EXCEPTION_RECORD, *record) + struct.pack("<II", size, context)


def _thread(thread: ThreadState, size: int, context: int, memory: Sequence[tuple[MemoryRange, int]]) -> bytes:
    """Return the entry of a thread; its stack is the memory at its stack pointer."""
    stack = next(((piece, offset) for piece, offset in memory if piece.start <= (thread.sp or 0) < piece.end), None)
    location = (0, 0, 0) if stack is None else (stack[0].start, len(stack[0].data), stack[1])
    return struct.pack("<" + layout.THREAD, thread.tid, 0, 0, 0, thread.thread_pointer, *location, size, context)
