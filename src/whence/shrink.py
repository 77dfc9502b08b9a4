"""Keep of a core only what stacks need: a core of gigabytes becomes one of some hundred kilobytes.

Kept are the notes, which have the registers, and this memory (page by page, or byte by byte when redacted):

    1. stacks: from below the stack pointer to the outermost frame, and all that unwinding read
    2. the memory near the frames' code, if the core has it (generated code)
    3. near pointers in registers and frames: strings and structures that debuggers print as arguments
    4. thread control blocks, and the writable data of the C library and the loader, where debuggers find the threads
    5. of each mapped file: ELF header, program headers, notes, dynamic table
    6. the loader's list of files: r_debug, link_map, names
    7. the vDSO
    8. frames of interpreters

References: elf(5), core(5); the gABI ("Dynamic Section"); link.h and nptl_db of glibc.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from whence._base.errors import ElfError, MapsError
from whence.dumps.core import auxiliary_vector, mapped_files, read_core, thread_pointers
from whence.dumps.core_stream import RED_ZONE, notes_of
from whence.dumps.core_writer import PAGE, KeptRange, write_core
from whence.dumps.process import LocalPaths
from whence.interpreters.process import Interpreters, NativeThread
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants
from whence.unwind.core import core_dump, stacks_with_reads
from whence.unwind.modules import Modules
from whence.unwind.steps import End

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from whence.dumps.process import MemoryRange
    from whence.locator.locator import Locator
    from whence.procmap.snapshot import SnapshotMappings
    from whence.unwind.core import ThreadStack

NEAR = 256  # bytes kept at each pointer: debuggers print the first 200 characters of a string
UNFINISHED_STACK = 256 << 10  # bytes kept of a stack whose end was not found
SCANNED_STACK = 64 << 10  # bytes searched for pointers, of each stack
AROUND_CODE = 32  # bytes before and after a frame's code address
THREAD_BLOCK = 0x1000  # bytes that glibc's struct pthread may have
VDSO_LIMIT = 64 << 10
FILES_LIMIT = 1 << 16  # entries of the loader's list
TAGS_LIMIT = 1024  # entries of a dynamic table
NAMESPACES_LIMIT = 64
NAME_LIMIT = 4096
ABOVE_FRAMES = 512  # bytes kept above the outermost frame's stack pointer
AT_PHDR, AT_PHENT, AT_PHNUM, AT_ENTRY, AT_EXECFN = 3, 4, 5, 9, 31
DT_DEBUG = 21
DEBUG_WORDS = 5  # of struct r_debug: r_version, r_map, r_brk, r_state, r_ldbase
EXTENDED_DEBUG = 2  # r_version from which r_next follows: the next namespace
LOADER_WORDS = 5  # of struct link_map: l_addr, l_name, l_ld, l_next, l_prev
THREAD_SYMBOLS = ("_dl_stack_user", "_dl_stack_used", "__stack_user", "stack_used")  # glibc's lists in static programs
THREADS_LIMIT = 1 << 16
THREAD_LIBRARIES = ("libc.so", "libc-", "ld-", "ld.so", "libpthread")  # starts of file names
X86 = (constants.EM_X86_64, constants.EM_386)
# of notes: the part that --redact keeps, [start, end), by owner and type
REDACTED_NOTES = {
    (b"CORE", constants.NT_PRPSINFO): (0, 56),  # up to pr_psargs, the command line
    (b"CORE", 2): (0, 0),  # NT_FPREGSET
    (b"LINUX", 0x46E62B7F): (0, 0),  # NT_PRXFPREG
    (b"LINUX", 0x202): (464, 576),  # NT_X86_XSTATE: which parts it has, and the header
}


class SmallCore(NamedTuple):
    """The size of a small core, its bytes of memory kept and stored in the core, threads, stacks that end too early."""

    size: int
    memory: int
    stored: int
    threads: int
    unfinished: int


def shrink_core(
    elf: ElfFile,
    file: BinaryIO,
    locator: Locator | None = None,
    *,
    near: int = NEAR,
    redact: bool = False,
    sysroot: str = "",
    programs: Sequence[str] = (),
) -> SmallCore:
    """Write a core with what stacks need of another.

    Args:
        elf: the core.
        file: written in order.
        locator: finds the files of the process, whose tables unwinding reads.
        near: bytes kept at each address that registers and frames have.
        redact: keep only bytes that unwinding and debuggers read to find frames; others in kept pages are zeros.
            Values of arguments are lost. Excludes `near`.
        sysroot: the folder with the files of another machine.
        programs: files that may be the program, for a core that does not list its files.

    Raises:
        MapsError: it is not a core, or its notes are damaged.
        ElfError: the ELF file is damaged.
        OSError: writing failed.
    """
    core = read_core(elf, programs, LocalPaths(sysroot))
    dump = core_dump(elf, core)
    kept = _Kept(elf, dump.memory)
    with stacks_with_reads(dump, locator) as (opened, recorded):
        stacks = opened.stacks
        interpreters = Interpreters.of_dump(dump, opened)
        threads = [NativeThread(stack.tid, stack.thread_pointer, stack.unwound) for stack in stacks]
        interpreters.walk(threads, record=True)
        interpreters.merged(threads, recorded.read)  # reads names and lines
        kept.add_all(recorded.reads)
        kept.add_all(interpreters.recorded_reads())
    for stack in stacks:
        if not redact:
            kept.add_stack(stack)
        for frame in stack.unwound.frames:
            kept.add(frame.pc - AROUND_CODE, frame.pc + AROUND_CODE)
    if near and not redact:
        for stack in stacks:
            kept.add_targets(stack, near)
    _add_threads(kept, elf)
    if not mapped_files(elf):  # the starts of segments tell which files were mapped
        kept.add_all((segment.vaddr, segment.vaddr + 1) for segment in elf.segments if segment.is_loaded)
    for entry in dump.files:
        if entry.offset == 0:
            _add_head(kept, entry.start)
    if not _add_loader(kept, elf):
        _add_static_debug(kept, elf, core.snapshot, locator)
    ranges = kept.ranges()
    if not mapped_files(elf):
        ranges = sorted((*ranges, *_bare_segments(elf)))
    memory = sum(kept_range.end - kept_range.start for kept_range in ranges if kept_range.is_stored)
    if memory > elf.size:
        raise MapsError("", None, f"segments share bytes: {memory:,} bytes of memory in {elf.size:,}", path=elf.path)
    exact = kept.merged() if redact else []

    def read(address: int, size: int) -> bytes:
        content = kept.read(address, size)
        return _only(content, address, exact) if redact else content

    notes = [_redacted(note, elf) if redact else note for note in notes_of(elf)]
    size = write_core(file, elf, notes, ranges, read)
    unfinished = sum(stack.unwound.end is not End.COMPLETE for stack in stacks)
    return SmallCore(size, memory, sum(len(piece.data) for piece in dump.memory), len(stacks), unfinished)


class _Kept:
    """The memory that is kept, as ranges of addresses in any order, of a core's memory."""

    def __init__(self, elf: ElfFile, memory: Sequence[MemoryRange]) -> None:
        self._word, self._order = elf.bits // 8, elf.order
        self._memory = memory
        self._starts = [piece.start for piece in memory]
        self._flags = {segment.vaddr: segment.flags for segment in elf.segments if segment.is_loaded}
        self._parts: list[tuple[int, int]] = []

    def piece(self, address: int) -> MemoryRange | None:
        """Return the memory of the core that contains an address, None if it is not in the core."""
        index = bisect_right(self._starts, address) - 1
        return self._memory[index] if index >= 0 and address < self._memory[index].end else None

    def read(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes of one segment at an address."""
        piece = self.piece(address)
        return b"" if piece is None else bytes(piece.data[address - piece.start : address - piece.start + size])

    def take(self, address: int, size: int) -> bytes:
        """Return bytes like `read` and keep them."""
        content = self.read(address, size)
        self.add(address, address + len(content))
        return content

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return and keep words at an address; () unless all are in the core."""
        content = self.take(address, count * self._word)
        if len(content) < count * self._word:
            return ()
        return tuple(
            int.from_bytes(content[i : i + self._word], self._order) for i in range(0, len(content), self._word)
        )

    def add(self, start: int, end: int) -> None:
        self._parts.append((start, end))

    def add_all(self, parts: Iterable[tuple[int, int]]) -> None:
        self._parts += parts

    def add_stack(self, stack: ThreadStack) -> None:
        for start, end in self._extents(stack):
            self.add(start, end)

    def _extents(self, stack: ThreadStack) -> Iterator[tuple[int, int]]:
        """Yield the used part of each stack that a thread's frames are on."""
        first_of: dict[int, int] = {}
        last_of: dict[int, int] = {}
        for frame in stack.unwound.frames:
            piece = self.piece(frame.sp)
            if piece is not None and self._flags[piece.start] & constants.PF_W:
                first_of.setdefault(piece.start, frame.sp)
                last_of[piece.start] = frame.sp
        for base, last in last_of.items():
            end = last + ABOVE_FRAMES
            if stack.unwound.end is not End.COMPLETE:
                end = max(end, first_of[base] + UNFINISHED_STACK)
            yield min(first_of[base], last) - RED_ZONE, end

    def add_targets(self, stack: ThreadStack, near: int) -> None:
        """Keep the memory at the addresses that a thread's registers and frames have."""
        words = set(stack.registers.values())
        for start, end in self._extents(stack):
            start += -start % self._word
            content = self.read(start, min(end - start, SCANNED_STACK))
            values = array("Q" if self._word == 8 else "I", content[: len(content) - len(content) % self._word])
            if self._order == "big":
                values.byteswap()
            words.update(values)
        if self._memory:
            low, high = self._starts[0], self._memory[-1].end
            self.add_all((word, word + near) for word in words if low <= word < high and self._is_data(word))

    def _is_data(self, address: int) -> bool:
        piece = self.piece(address)
        return piece is not None and not self._flags[piece.start] & constants.PF_X

    def merged(self, align: int = 1) -> list[tuple[int, int]]:
        """Return the kept ranges, in order and without overlaps, extended to multiples of `align`."""
        merged: list[tuple[int, int]] = []
        for start, end in sorted(self._parts):
            start, end = start & -align, end + -end % align
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            elif start < end:
                merged.append((start, end))
        return merged

    def ranges(self) -> list[KeptRange]:
        """Return the kept memory that the core has, in pages: elfutils rounds addresses of segments down to a page."""
        ranges: list[KeptRange] = []
        for start, end in self.merged(PAGE):
            index = max(0, bisect_right(self._starts, start) - 1)
            while index < len(self._memory) and self._starts[index] < end:
                piece = self._memory[index]
                first, last = max(start, piece.start), min(end, piece.end)
                if first < last:
                    ranges.append(KeptRange(first, last, self._flags[piece.start]))
                index += 1
        return ranges


def _bare_segments(elf: ElfFile) -> Iterator[KeptRange]:
    """Yield the segments of which the core has no bytes: a core without NT_FILE lists mapped files by them."""
    for segment in elf.segments:
        if segment.is_loaded and not segment.file_size:
            yield KeptRange(segment.vaddr, segment.end, segment.flags, is_stored=False)


def _add_threads(kept: _Kept, elf: ElfFile) -> None:
    """Keep what debuggers find and name threads by."""
    before, after = (0, THREAD_BLOCK) if elf.machine in X86 else (THREAD_BLOCK, 16)
    for pointer in thread_pointers(elf):
        kept.add(pointer - before, pointer + after)
    for entry in mapped_files(elf):
        if os.path.basename(entry.name).startswith(THREAD_LIBRARIES):
            for segment in elf.segments:
                if segment.is_loaded and segment.writable and entry.start <= segment.vaddr < entry.end:
                    kept.add(segment.vaddr, segment.vaddr + segment.file_size)


def _add_head(kept: _Kept, start: int) -> None:
    """Keep what identifies a mapped file, and what leads to its dynamic table."""
    piece = kept.piece(start)
    if piece is None or piece.start != start:
        return
    with suppress(ElfError):
        head = ElfFile.from_bytes(piece.data)
        table = head.header.segments
        kept.add(start, start + max(PAGE if not table.count else 0, table.file_offset + table.count * table.stride))
        loads = [segment for segment in head.segments if segment.is_loaded]
        if loads:
            bias = start - loads[0].vaddr + loads[0].file_offset
            for segment in head.segments:
                if segment.type in (constants.PT_DYNAMIC, constants.PT_NOTE):
                    kept.add(segment.vaddr + bias, segment.vaddr + bias + segment.memory_size)


def _add_loader(kept: _Kept, elf: ElfFile) -> bool:
    """Keep the program headers, the vDSO and the loader's list of files, which the auxiliary vector leads to.

    Return True if there is such a list.
    """
    auxiliary = auxiliary_vector(elf)
    vdso = kept.piece(auxiliary.get(constants.AT_SYSINFO_EHDR, 0))
    if vdso is not None:
        kept.add(vdso.start, vdso.start + min(len(vdso.data), VDSO_LIMIT))
    _add_text(kept, auxiliary.get(AT_EXECFN, 0))
    address, size, count = (auxiliary.get(tag, 0) for tag in (AT_PHDR, AT_PHENT, AT_PHNUM))
    headers = kept.take(address, min(size * count, 1 << 16))
    tables = _dynamic_tables(headers, elf, address, size)
    for table in tables:
        for index in range(TAGS_LIMIT):
            tag, value = kept.words(table + 2 * index * elf.bits // 8, 2) or (constants.DT_NULL, 0)
            if tag == constants.DT_NULL:
                break
            if tag == DT_DEBUG and value:
                _add_loaded_files(kept, value)
                return True
    return False


def _add_static_debug(kept: _Kept, elf: ElfFile, snapshot: SnapshotMappings, locator: Locator | None) -> None:
    """Keep the lists of files and threads of a static program, where debuggers look for their symbols."""
    entry = auxiliary_vector(elf).get(AT_ENTRY, 0)
    modules = Modules(snapshot, locator)
    try:
        for mapping, file in zip(snapshot.mappings, snapshot.file_of, strict=True):
            if file is not None and mapping.start <= entry < mapping.end:
                program = modules.of_file(file, mapping).elf
                if program is None:
                    continue
                symbols, bias = program.symbols(), entry - program.entry
                debug = symbols.find("_r_debug")
                if debug is not None:
                    _add_loaded_files(kept, symbols.value[debug] + bias)
                for name in THREAD_SYMBOLS:
                    index = symbols.find(name)
                    if index is not None:
                        _add_thread_list(kept, symbols.value[index] + bias)
    finally:
        modules.close()


def _dynamic_tables(headers: bytes, elf: ElfFile, address: int, size: int) -> list[int]:
    """Return the address of the program's dynamic table, if its program headers at `address` have one."""
    form = ("<" if elf.order == "little" else ">") + ("IIQQ" if elf.bits == 64 else "III")
    if size < struct.calcsize(form):
        return []
    vaddrs: dict[int, int] = {}
    for offset in range(0, len(headers) - size + 1, size):
        fields = struct.unpack_from(form, headers, offset)
        vaddrs.setdefault(fields[0], fields[-1])
    if constants.PT_DYNAMIC not in vaddrs:
        return []
    bias = address - vaddrs.get(constants.PT_PHDR, address)
    return [vaddrs[constants.PT_DYNAMIC] + bias]


def _add_loaded_files(kept: _Kept, debug: int) -> None:
    """Keep struct r_debug of each namespace, and the list of struct link_map with their names."""
    seen: set[int] = set()
    for _ in range(NAMESPACES_LIMIT):
        fields = kept.words(debug, DEBUG_WORDS + 1) or (*kept.words(debug, DEBUG_WORDS), 0)
        if len(fields) <= DEBUG_WORDS:
            break
        version, entry, following = fields[0] & 0xFFFFFFFF, fields[1], fields[DEBUG_WORDS]
        while entry and entry not in seen and len(seen) < FILES_LIMIT:
            seen.add(entry)
            fields = kept.words(entry, LOADER_WORDS)
            if not fields:
                break
            _add_text(kept, fields[1])
            entry = fields[3]
        if version < EXTENDED_DEBUG or not following:
            break
        debug = following


def _add_thread_list(kept: _Kept, head: int) -> None:
    """Keep a list of glibc's threads: pointers to the next and the previous entry, inside struct pthread."""
    entry, seen = head, set[int]()
    while entry and entry not in seen and len(seen) < THREADS_LIMIT:
        seen.add(entry)
        if entry != head:
            kept.add(entry - THREAD_BLOCK, entry + THREAD_BLOCK)
        entry = (kept.words(entry, 2) or (0,))[0]


def _add_text(kept: _Kept, address: int) -> None:
    """Keep the NUL-terminated text at an address."""
    end = kept.read(address, NAME_LIMIT).find(b"\0")
    if end >= 0:
        kept.add(address, address + end + 1)


def _only(content: bytes, address: int, exact: list[tuple[int, int]]) -> bytes:
    """Return content at an address, with zeros outside the exact ranges."""
    result = bytearray(len(content))
    index = max(0, bisect_right(exact, (address,)) - 1)
    for start, end in exact[index:]:
        if start >= address + len(content):
            break
        first, last = max(start, address) - address, min(end, address + len(content)) - address
        if first < last:
            result[first:last] = content[first:last]
    return bytes(result)


def _redacted(note: bytes, elf: ElfFile) -> bytes:
    """Return the content of a PT_NOTE segment with the command line and the vector registers zeroed."""
    form = ("<" if elf.order == "little" else ">") + "III"
    result, offset = bytearray(note), 0
    while offset + 12 <= len(note):
        name_size, size, type_ = struct.unpack_from(form, note, offset)
        name = note[offset + 12 : offset + 12 + name_size].rstrip(b"\0")
        begin = offset + 12 + name_size + -name_size % 4
        end = min(begin + size, len(note))
        if (name, type_) in REDACTED_NOTES:
            first, last = REDACTED_NOTES[name, type_]
            if type_ == constants.NT_PRPSINFO and elf.bits == 32:
                last = 44
            kept = result[begin + first : min(begin + last, end)]
            result[begin:end] = bytes(end - begin)
            result[begin + first : begin + first + len(kept)] = kept
        offset = begin + size + -size % 4
    return bytes(result)
