"""Copy the part of a core that stacks may need from a pipe into a file, in one pass.

Linux writes a core in order: program headers, one PT_NOTE segment, memory by ascending address. So registers are known
before the first byte of memory arrives, and decide what is copied:

    stacks          from below the stack pointer of each thread to the end of its segment, up to STACK_LIMIT
    heads           the first HEAD_LIMIT bytes of every segment
    other memory    segments of up to SMALL_SEGMENT bytes; of larger ones the first bytes, all together up to a limit

The rest is read and dropped. The copy is a core with fewer and shorter segments.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from whence._base.errors import MapsError
from whence.dumps.core import core_threads, thread_pointers
from whence.dumps.core_writer import COPIED_AT_ONCE, PAGE, KeptRange, core_head
from whence.objects.elf import ElfFile, layout
from whence.objects.elf.kernels import constants

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from whence.objects.elf import Segment

STACK_LIMIT = 8 << 20  # bytes of each stack
HEAD_LIMIT = 1 << 16  # bytes of each segment
SMALL_SEGMENT = 1 << 20  # bytes
LARGE_LIMIT = 64 << 20  # bytes of all larger segments together
NOTES_LIMIT = 256 << 20  # bytes before the first memory
ELF_HEADER = 64  # bytes, of 64-bit files; those of 32-bit files have 52, which program headers follow
RED_ZONE = 128  # bytes below the stack pointer that a function may use (x86-64)


class StreamedCore(NamedTuple):
    """The size of the core in bytes, what it lacks at its end, and what was dropped of large segments."""

    size: int
    missing: int
    dropped: int


class _Window(NamedTuple):
    """Bytes [file_offset, file_offset + end - start) of the core, memory [start, end)."""

    file_offset: int
    start: int
    end: int
    flags: int


def copy_core(stream: BinaryIO, file: BinaryIO, *, limit: int = LARGE_LIMIT, most: int | None = None) -> StreamedCore:
    """Read a core to its end, and write the part of it that stacks may need as a core.

    Args:
        stream: the core, from its first byte; it may be a pipe.
        file: a seekable file.
        limit: bytes copied of all large segments together.
        most: bytes of memory that may be written.

    Raises:
        MapsError: it is not a core, not in the order in which Linux writes cores, or more than `most` would be written.
        ElfError: the ELF header is damaged.
        OSError: reading or writing failed.
    """
    reader = _Reader(stream)
    head = _read_head(reader)
    loads = sorted(
        (segment for segment in head.segments if segment.is_loaded and segment.file_size),
        key=lambda segment: segment.file_offset,
    )
    windows, dropped = _windows(head, loads, limit)
    notes = notes_of(head)
    needed = sum(window.end - window.start for window in windows)
    if most is not None and needed > most:
        raise MapsError("", None, f"stacks may need {needed:,} bytes of the core, and the disk has {most:,}")
    ranges = [KeptRange(window.start, window.end, window.flags) for window in windows]
    file.write(core_head(head, notes, ranges))
    for index, window in enumerate(windows):
        file.seek(-file.tell() % PAGE, 1)
        copied = reader.copy(window.file_offset, window.end - window.start, file)
        if copied < window.end - window.start:  # the pipe ended
            ranges[index] = ranges[index]._replace(end=window.start + copied)
            ranges[index + 1 :] = [later._replace(end=later.start) for later in ranges[index + 1 :]]
            file.truncate()
            file.seek(0)
            file.write(core_head(head, notes, ranges))
            break
    reader.skip()
    end = max((segment.file_end for segment in loads), default=0)
    return StreamedCore(reader.position, max(0, end - reader.position), dropped)


def notes_of(elf: ElfFile) -> list[bytes]:
    """Return the content of each PT_NOTE segment."""
    return [
        bytes(elf.data[segment.file_offset : segment.file_end])
        for segment in elf.segments
        if segment.type == constants.PT_NOTE
    ]


def _read_head(reader: _Reader) -> ElfFile:
    """Return the core up to the end of its notes. Raises MapsError, ElfError."""
    reader.fill(ELF_HEADER)
    header = ElfFile.from_bytes(reader.head).header
    size = struct.calcsize(layout.ORDER_MARK[header.order] + layout.SEGMENT[header.bits])
    if header.type != constants.ET_CORE:
        raise MapsError("", None, f"not a core file: its ELF type is {header.type}, expected {constants.ET_CORE}")
    if header.segments.count == constants.PN_XNUM:
        raise MapsError("", None, "more than 65,534 program headers: store the core in a file first")
    reader.fill(header.segments.file_offset + header.segments.count * size)
    segments = ElfFile.from_bytes(reader.head).segments
    memory = min((s.file_offset for s in segments if s.is_loaded and s.file_size), default=None)
    notes = max((s.file_end for s in segments if s.type == constants.PT_NOTE), default=0)
    if not notes:
        raise MapsError("", None, "the core has no notes")
    if memory is not None and memory < notes:
        raise MapsError("", None, "the notes follow the memory, as gdb writes cores: store the core in a file first")
    reader.fill(notes)
    return ElfFile.from_bytes(reader.head)


def _windows(head: ElfFile, loads: Sequence[Segment], limit: int) -> tuple[list[_Window], int]:
    """Return what is copied of the segments, in order of file offset, and the number of bytes dropped."""
    points = sorted({thread.sp for thread in core_threads(head) if thread.sp})
    pointers = sorted(set(thread_pointers(head)))
    windows, dropped, position = list[_Window](), 0, 0
    for segment in loads:
        if segment.file_offset < position:  # the bytes have passed
            continue
        position = segment.file_end
        start, end = segment.vaddr, segment.vaddr + min(segment.file_size, segment.memory_size)
        parts = [(start, min(end, start + HEAD_LIMIT))]
        parts += [(sp - RED_ZONE & -PAGE, sp + STACK_LIMIT) for sp in points if start <= sp < end]
        parts += [(pointer - PAGE & -PAGE, pointer + PAGE) for pointer in pointers if start <= pointer < end]
        if end - start <= SMALL_SEGMENT:
            parts.append((start, end))
        else:
            size = min(end - start, limit)
            limit -= size
            parts.append((start, start + size))
            dropped += end - start - size
        for first, last in _merged(parts, start, end):
            windows.append(_Window(segment.file_offset + first - start, first, last, segment.flags))
    return windows, dropped


def _merged(parts: list[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the union of ranges within [start, end), in order."""
    first = last = start
    for begin, stop in sorted(parts):
        begin, stop = max(begin, start), min(stop, end)
        if begin > last:
            if last > first:
                yield first, last
            first = last = begin
        last = max(last, stop)
    if last > first:
        yield first, last


class _Reader:
    """Reads a stream once: its head, then ranges in order of offset."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.head = b""
        self.position = 0  # bytes read of the stream

    def fill(self, size: int) -> None:
        """Read the head up to `size` bytes. Raises MapsError if there are fewer."""
        if size > NOTES_LIMIT:
            raise MapsError("", None, f"the notes end at {size:,} bytes, more than {NOTES_LIMIT:,}")
        if size > len(self.head):
            self.head += self._stream.read(size - len(self.head))
            self.position = len(self.head)
        if size > len(self.head):
            raise MapsError("", None, f"truncated: the notes end at {size:,} bytes, {len(self.head):,} arrived")

    def copy(self, file_offset: int, size: int, file: BinaryIO) -> int:
        """Copy bytes from an offset on, which has not passed, except in the head; return how many arrived."""
        done = 0
        if file_offset < len(self.head):
            done = file.write(self.head[file_offset : file_offset + size])
        self.skip(file_offset + done)
        while done < size:
            data = self._stream.read(min(COPIED_AT_ONCE, size - done))
            if not data:
                break
            self.position += len(data)
            done += file.write(data)
        return done

    def skip(self, file_offset: int | None = None) -> None:
        """Drop bytes up to an offset, or to the end of the stream."""
        while file_offset is None or self.position < file_offset:
            size = COPIED_AT_ONCE if file_offset is None else min(COPIED_AT_ONCE, file_offset - self.position)
            data = self._stream.read(size)
            if not data:
                break
            self.position += len(data)
